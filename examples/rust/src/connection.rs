//! One connection for all requests, made when first needed and made anew when it broke.
//!
//! Not the `ConnectionManager` of the `redis` crate: that hands out its last failure before it tries again, lets
//! requests wait for its back-off, and stays with a connection that is half open.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, RedisResult};
use tokio::time::{Instant, timeout_at};

/// An attempt to connect, which all requests share: under way, failed, or the connection.
type Attempt = Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>>;

/// Errors come with every request; one in this time is enough for the log.
const REPORT_EVERY: Duration = Duration::from_secs(10);

pub(crate) struct Connection {
    client: Client,
    attempt: Mutex<Option<Attempt>>,
    reported: Mutex<Option<Instant>>,
}

impl Connection {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            attempt: Mutex::new(None),
            reported: Mutex::new(None),
        }
    }

    /// The answer, or an error at the latest when the timeout has passed.
    pub(crate) async fn query<T: FromRedisValue>(
        &self,
        command: &Cmd,
        timeout: Duration,
    ) -> RedisResult<T> {
        let deadline = Instant::now() + timeout;
        loop {
            let attempt = self.attempt(timeout);
            let established = attempt.peek().is_some();
            let mut connection = timeout_at(deadline, attempt.clone())
                .await
                .unwrap_or_else(|_| Err(timed_out()))?;
            match timeout_at(deadline, command.query_async(&mut connection)).await {
                Ok(Err(error)) if error.is_unrecoverable_error() => {
                    self.discard(&attempt);
                    // That Redis closed a connection while it was idle shows only now.
                    if !(established && error.is_connection_dropped()) {
                        return Err(error);
                    }
                }
                Ok(answer) => return answer,
                Err(_) => {
                    // It may be half open. A new one only had what connecting left of the time.
                    if established {
                        self.discard(&attempt);
                    }
                    return Err(timed_out());
                }
            }
        }
    }

    /// The connection, or the attempt that is under way; a new one if there is neither.
    fn attempt(&self, timeout: Duration) -> Attempt {
        let mut current = lock(&self.attempt);
        if let Some(attempt) = current.as_ref()
            && !matches!(attempt.peek(), Some(Err(_)))
        {
            return attempt.clone();
        }
        let client = self.client.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(None);
        let attempt = async move {
            client
                .get_multiplexed_async_connection_with_config(&config)
                .await
        }
        .boxed()
        .shared();
        // A task of its own, so that it goes on when the request that began it gives up.
        tokio::spawn(attempt.clone());
        *current = Some(attempt.clone());
        attempt
    }

    /// Forgets this connection, unless another has taken its place.
    fn discard(&self, attempt: &Attempt) {
        let mut current = lock(&self.attempt);
        if current.as_ref().is_some_and(|now| now.ptr_eq(attempt)) {
            *current = None;
        }
    }

    /// Logs the error, if none was logged lately.
    pub(crate) fn report(&self, error: &RedisError) {
        let mut reported = lock(&self.reported);
        if reported.is_some_and(|time| time.elapsed() < REPORT_EVERY) {
            return;
        }
        *reported = Some(Instant::now());
        // Redis repeats the arguments of a command that it does not know, and with them a client's key.
        let detail = error.detail().unwrap_or_default();
        if detail.starts_with("unknown command") {
            tracing::warn!("no decision: Redis runs without the module redis-rl");
        } else {
            tracing::warn!(%error, "no decision from Redis");
        }
    }
}

fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

/// Nothing panics while it holds one of these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Rate limiting for axum and other tower services with redis-rl.
//!
//! ```
//! use axum::{Router, routing::get};
//! use redis_rl_tower::{Algorithm, Limit, OnError, RateLimiter, Rate, by_header, by_ip};
//! use std::time::Duration;
//!
//! # fn app() -> redis::RedisResult<Router> {
//! let limiter = RateLimiter::new("redis://127.0.0.1")?.on_error(OnError::Closed);
//! let hourly = Algorithm::fixed(Duration::from_secs(3600), 3);
//! let login = Limit::new("login", hourly, by_header("x-api-key"));
//! let burst = Limit::new("ip", Algorithm::token(100, Rate::per_second(10)), by_ip());
//! Ok(Router::new().route("/login", get(|| async { "ok\n" }).layer(limiter.layer([login, burst]))))
//! # }
//! ```
#![forbid(unsafe_code)]

mod answer;
mod connection;
mod limit;

pub use limit::{Algorithm, Limit, Rate, by_header, by_ip, by_ip_behind, constant};

use std::mem::replace;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{HeaderMap, Request, Response, request::Parts};
use connection::Connection;
use futures_util::future::BoxFuture;
use limit::Key;
use redis::{IntoConnectionInfo, RedisResult, Value};
use tower::{Layer, Service};

/// What becomes of a request when Redis is away, slow or answers an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// It passes, without headers.
    Open,
    /// It is answered `503`.
    Closed,
}

/// One connection to Redis and the settings of the layers that share it. Cheap to clone.
#[derive(Clone)]
pub struct RateLimiter {
    connection: Arc<Connection>,
    on_error: OnError,
    timeout: Duration,
    legacy_headers: bool,
    hash_tag: Option<Key>,
    max_wait: Duration,
}

impl RateLimiter {
    /// Takes a URL or what else the `redis` crate knows. It connects with the first request, so Redis may be away
    /// now; an error is a URL that is none.
    pub fn new(server: impl IntoConnectionInfo) -> RedisResult<Self> {
        Ok(Self {
            connection: Arc::new(Connection::new(redis::Client::open(server)?)),
            on_error: OnError::Open,
            timeout: Duration::from_millis(100),
            legacy_headers: false,
            hash_tag: None,
            max_wait: Duration::from_secs(10),
        })
    }

    /// What to do when Redis gives no decision. [`OnError::Open`] if not told.
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// How long a request waits for Redis, connecting included. 100 ms if not told, one hour at most.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        // Far below where adding it to a time would overflow.
        self.timeout = timeout.min(Duration::from_secs(3600));
        self
    }

    /// Sends `X-RateLimit-Limit`, `-Remaining` and `-Reset` as well.
    pub fn legacy_headers(mut self, on: bool) -> Self {
        self.legacy_headers = on;
        self
    }

    /// Puts what this function takes from the request into the keys as their hash tag. Where it is `None` they have
    /// no tag. For one text use [`constant`].
    pub fn hash_tag<K: Into<Vec<u8>>>(
        mut self,
        tag: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        self.hash_tag = Some(limit::key(tag));
        self
    }

    /// The longest that a leaky bucket holds a request. 10 s if not told.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// The layer that puts these limits in front of a route, all of them or none.
    ///
    /// # Panics
    ///
    /// If two of them have the same name: they could meet in one key.
    pub fn layer(&self, limits: impl IntoIterator<Item = Limit>) -> RateLimit {
        let limits: Vec<Limit> = limits.into_iter().collect();
        for (i, limit) in limits.iter().enumerate() {
            let is_first = limits[..i].iter().all(|other| other.name != limit.name);
            assert!(is_first, "two limits have the name {:?}", limit.name);
        }
        RateLimit(Arc::new(Guard {
            limiter: self.clone(),
            limits,
        }))
    }
}

/// A [`Layer`] that limits requests; made by [`RateLimiter::layer`].
#[derive(Clone)]
pub struct RateLimit(Arc<Guard>);

impl<S> Layer<S> for RateLimit {
    type Service = RateLimited<S>;

    fn layer(&self, inner: S) -> RateLimited<S> {
        RateLimited {
            inner,
            guard: Arc::clone(&self.0),
        }
    }
}

/// A [`Service`] behind limits.
#[derive(Clone)]
pub struct RateLimited<S> {
    inner: S,
    guard: Arc<Guard>,
}

impl<S, B, R> Service<Request<B>> for RateLimited<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: From<String>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The service that was polled ready serves this request; the clone is not ready yet.
        let clone = self.inner.clone();
        let mut inner = replace(&mut self.inner, clone);
        let guard = Arc::clone(&self.guard);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            match guard.admit(&parts).await {
                Ok(fields) => {
                    let mut response = inner.call(Request::from_parts(parts, body)).await?;
                    answer::add(fields, response.headers_mut());
                    Ok(response)
                }
                Err(refusal) => Ok(refusal.map(R::from)),
            }
        })
    }
}

/// The limits of a route.
struct Guard {
    limiter: RateLimiter,
    limits: Vec<Limit>,
}

impl Guard {
    /// The headers for the application's response, as soon as the request may go on; or the response instead of it.
    async fn admit(&self, parts: &Parts) -> Result<HeaderMap, Response<String>> {
        let RateLimiter {
            connection,
            on_error,
            timeout,
            legacy_headers,
            hash_tag,
            max_wait,
        } = &self.limiter;

        let tag = hash_tag.as_ref().and_then(|tag| tag(parts));
        let (limits, command) = limit::question(&self.limits, tag.as_deref(), parts);
        if limits.is_empty() {
            return Ok(HeaderMap::new());
        }
        let reply = connection.query::<Value>(&command, *timeout).await;
        let mut decisions = match reply.and_then(|reply| answer::decisions(reply, limits.len())) {
            Ok(decisions) => decisions,
            Err(error) => {
                connection.report(&error);
                return match on_error {
                    OnError::Open => Ok(HeaderMap::new()),
                    OnError::Closed => Err(answer::unavailable()),
                };
            }
        };

        let hold = answer::hold(&mut decisions, *max_wait);
        let fields = answer::fields(&limits, &decisions, *legacy_headers);
        match hold {
            Some(wait) => {
                // Dropped with the request when the client hangs up.
                tokio::time::sleep(wait).await;
                Ok(fields)
            }
            None => Err(answer::limited(&limits, &decisions, fields)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{Ready, ready};

    /// Serves only when it was polled ready, which its clones were not.
    #[derive(Default)]
    struct Strict {
        ready: bool,
    }

    impl Clone for Strict {
        fn clone(&self) -> Self {
            Self::default()
        }
    }

    impl Service<Request<()>> for Strict {
        type Response = Response<String>;
        type Error = &'static str;
        type Future = Ready<Result<Response<String>, &'static str>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
            self.ready = true;
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<()>) -> Self::Future {
            assert!(replace(&mut self.ready, false));
            ready(match request.uri().path() {
                "/error" => Err("its own error"),
                _ => Ok(Response::default()),
            })
        }
    }

    #[test]
    fn a_route_has_each_name_once() {
        let limiter = RateLimiter::new("redis://127.0.0.1:1").unwrap();
        let limit = || {
            let second = Duration::from_secs(1);
            Limit::new("a", Algorithm::fixed(second, 1), constant("k"))
        };
        let twice = std::panic::AssertUnwindSafe(|| limiter.layer([limit(), limit()]));
        assert!(std::panic::catch_unwind(twice).is_err());
    }

    #[tokio::test]
    async fn calls_the_service_that_is_ready_and_passes_on_its_error() {
        let limiter = RateLimiter::new("redis://127.0.0.1:1").unwrap(); // where nobody listens
        let all = Limit::new(
            "all",
            Algorithm::fixed(Duration::from_secs(1), 1),
            constant("all"),
        );
        let mut context = Context::from_waker(std::task::Waker::noop());
        for (on_error, path, answer) in [
            (OnError::Open, "/", Ok(200)),
            (OnError::Open, "/error", Err("its own error")),
            (OnError::Closed, "/error", Ok(503)),
        ] {
            let mut service = limiter
                .clone()
                .on_error(on_error)
                .layer([all.clone()])
                .layer(Strict::default());
            for _ in 0..2 {
                assert!(service.poll_ready(&mut context).is_ready());
                let request = Request::builder().uri(path).body(()).unwrap();
                let status = service
                    .call(request)
                    .await
                    .map(|response| response.status().as_u16());
                assert_eq!(status, answer);
            }
        }
    }
}

//! What is limited: algorithms with their arguments, keys and costs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, request::Parts};
use redis::Cmd;

pub(crate) type Key = Arc<dyn Fn(&Parts) -> Option<Vec<u8>> + Send + Sync>;
type Cost = Arc<dyn Fn(&Parts) -> u64 + Send + Sync>;

/// Units per time.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    units: u64,
    per: Duration,
}

impl Rate {
    /// So many units in that time, in whole milliseconds.
    pub fn new(units: u64, per: Duration) -> Self {
        Self { units, per }
    }

    /// So many units in a second.
    pub fn per_second(units: u64) -> Self {
        Self::new(units, Duration::from_secs(1))
    }
}

/// An algorithm with its arguments, as in its command. Durations are in whole milliseconds.
#[derive(Clone, Debug)]
pub struct Algorithm {
    word: &'static str,
    arguments: Vec<String>,
    /// Each limit with its window in milliseconds.
    windows: Vec<(u64, u128)>,
    /// The highest cost that the command takes.
    max_cost: u64,
}

impl Algorithm {
    /// `RL.FIXED`: a fixed window on the clock.
    pub fn fixed(window: Duration, max: u64) -> Self {
        Self::windowed("FIXED", [(window, max)])
    }

    /// `RL.SLIDING`: exact in any window, with up to eight pairs of window and max.
    pub fn sliding(pairs: impl IntoIterator<Item = (Duration, u64)>) -> Self {
        Self {
            max_cost: u32::MAX.into(),
            ..Self::windowed("SLIDING", pairs)
        }
    }

    /// `RL.COUNTER`: an estimate for a sliding window.
    pub fn counter(window: Duration, max: u64) -> Self {
        Self::windowed("COUNTER", [(window, max)])
    }

    /// `RL.TOKEN`: a burst of `capacity`, then a steady rate.
    pub fn token(capacity: u64, rate: Rate) -> Self {
        Self::bucket("TOKEN", capacity, rate)
    }

    /// `RL.LEAKY`: requests are held so that they leave evenly spaced, up to `capacity` of them.
    pub fn leaky(capacity: u64, rate: Rate) -> Self {
        Self::bucket("LEAKY", capacity, rate)
    }

    /// An option of the command: `OFFSET` of a fixed window, `BUCKETS` of a counter.
    pub fn option(mut self, name: &str, value: impl ToString) -> Self {
        self.arguments.extend([name.to_owned(), value.to_string()]);
        self
    }

    fn windowed(word: &'static str, pairs: impl IntoIterator<Item = (Duration, u64)>) -> Self {
        let windows: Vec<_> = pairs
            .into_iter()
            .map(|(window, max)| (max, window.as_millis()))
            .collect();
        let arguments = windows
            .iter()
            .flat_map(|(max, ms)| [format!("{ms}ms"), max.to_string()]);
        Self {
            word,
            arguments: arguments.collect(),
            windows,
            max_cost: (1 << 53) - 1,
        }
    }

    fn bucket(word: &'static str, capacity: u64, rate: Rate) -> Self {
        let (units, ms) = (rate.units, rate.per.as_millis());
        // A rate of 0 is for the command to refuse.
        let drained = u128::from(capacity)
            .saturating_mul(ms)
            .div_ceil(u128::from(units.max(1)));
        Self {
            word,
            arguments: vec![capacity.to_string(), format!("{units}/{ms}ms")],
            windows: vec![(capacity, drained)],
            max_cost: (1 << 53) - 1,
        }
    }

    /// The window of the limit that a reply speaks for, in seconds: the first that has this limit.
    pub(crate) fn window(&self, limit: i64) -> u128 {
        self.windows
            .iter()
            .find(|(max, _)| i128::from(*max) == limit.into())
            .or(self.windows.first())
            .map_or(0, |(_, ms)| ms.div_ceil(1000))
    }
}

/// A limit: its name, its algorithm, whom it counts, and what a request costs.
#[derive(Clone)]
pub struct Limit {
    pub(crate) name: String,
    pub(crate) algorithm: Algorithm,
    key: Key,
    cost: Option<Cost>,
}

impl Limit {
    /// The key is a function of the request; where it is `None` the limit does not apply.
    ///
    /// # Panics
    ///
    /// If the name is not of letters, digits and `_ . -`: a colon would let two limits meet in one key, quotes would have to
    /// be escaped in headers.
    pub fn new<K: Into<Vec<u8>>>(
        name: impl Into<String>,
        algorithm: Algorithm,
        key: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let is_name = !name.is_empty() && name.bytes().all(fits);
        assert!(is_name, "not a name for a limit: {name:?}");
        Self {
            name,
            algorithm,
            key: self::key(key),
            cost: None,
        }
    }

    /// What a request costs, 1 if not told. A cost outside the command's range is moved into it, so that no client
    /// can choose one that is an error.
    pub fn cost(mut self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Some(Arc::new(cost));
        self
    }
}

pub(crate) fn key<K: Into<Vec<u8>>>(
    function: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static,
) -> Key {
    Arc::new(move |parts| function(parts).map(Into::into))
}

/// Those of the limits that apply to the request, and the command that asks for them.
pub(crate) fn question<'a>(
    limits: &'a [Limit],
    tag: Option<&[u8]>,
    parts: &Parts,
) -> (Vec<&'a Limit>, Cmd) {
    let (limits, keys): (Vec<_>, Vec<_>) = limits
        .iter()
        .filter_map(|limit| Some((limit, (limit.key)(parts)?)))
        .unzip();
    let mut command = Cmd::new();
    let several = limits.len() > 1;
    if several {
        command.arg("RL.ALL");
    }
    let tag = tag.filter(|tag| !tag.is_empty()).map(without_braces);
    let prefix = tag.map_or(b"rl:".to_vec(), |tag| [b"rl:{", &tag[..], b"}:"].concat());
    for (limit, key) in limits.iter().zip(keys) {
        let algorithm = &limit.algorithm;
        command
            .arg(if several {
                algorithm.word.to_owned()
            } else {
                format!("RL.{}", algorithm.word)
            })
            .arg([&prefix, limit.name.as_bytes(), b":", &key].concat())
            .arg(&algorithm.arguments);
        if let Some(cost) = &limit.cost {
            let cost = cost(parts).clamp(1, algorithm.max_cost);
            command.arg("COST").arg(cost);
        }
    }
    (limits, command)
}

/// A brace would end the hash tag, or make it empty.
fn without_braces(tag: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(tag.len());
    for byte in tag {
        match byte {
            b'%' => written.extend(b"%25"),
            b'{' => written.extend(b"%7B"),
            b'}' => written.extend(b"%7D"),
            other => written.push(*other),
        }
    }
    written
}

/// Counts by the value of a header, byte for byte; without it the limit does not apply.
pub fn by_header(name: &'static str) -> impl Fn(&Parts) -> Option<Vec<u8>> + Clone {
    move |parts| Some(parts.headers.get(name)?.as_bytes().to_vec())
}

/// Counts by the address of the connection.
///
/// The application must be served with `into_make_service_with_connect_info::<SocketAddr>()`. If it is not, all
/// clients count as one.
pub fn by_ip() -> impl Fn(&Parts) -> Option<Vec<u8>> + Clone {
    by_ip_behind(0)
}

/// Counts by the address of the client behind so many trusted proxies: that entry of `X-Forwarded-For`, from the
/// right. Where it has fewer, by the address of the connection, as [`by_ip`] does.
pub fn by_ip_behind(proxies: usize) -> impl Fn(&Parts) -> Option<Vec<u8>> + Clone {
    move |parts| {
        if let Some(address) = forwarded_for(&parts.headers, proxies) {
            return Some(address.to_vec());
        }
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let address = peer.map(|ConnectInfo(peer)| peer.ip().to_canonical().to_string());
        Some(address.unwrap_or("unknown".to_owned()).into_bytes())
    }
}

/// The n-th entry from the right. Several lines are one list, and empty entries are none (RFC 9110, 5.6.1).
fn forwarded_for(headers: &HeaderMap, n: usize) -> Option<&[u8]> {
    headers
        .get_all("x-forwarded-for")
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty())
        .nth_back(n.checked_sub(1)?)
}

/// The same for all requests.
pub fn constant(text: &str) -> impl Fn(&Parts) -> Option<Vec<u8>> + Clone + use<> {
    let text = text.as_bytes().to_vec();
    move |_| Some(text.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderValue, Request};

    #[test]
    fn windows_are_in_seconds_rounded_up() {
        let window = |algorithm: Algorithm, limit| algorithm.window(limit);
        let ms = Duration::from_millis;
        let tiers = Algorithm::sliding([(ms(1_001), 3), (ms(60_000), 5)]);
        assert_eq!(window(tiers.clone(), 3), 2);
        assert_eq!(window(tiers, 5), 60);
        assert_eq!(window(Algorithm::token(5, Rate::per_second(2)), 5), 3);
        assert_eq!(
            window(Algorithm::token(1, Rate::new(100, ms(60_000))), 1),
            1
        );
        assert_eq!(
            window(Algorithm::leaky(u64::MAX, Rate::new(0, Duration::MAX)), 0),
            u128::MAX.div_ceil(1000)
        );
    }

    #[test]
    fn a_client_is_the_nth_entry_from_the_right() {
        let mut headers = HeaderMap::new();
        for line in [&b"spoofed,, \xff"[..], b" 2001:db8::1 ,", b""] {
            headers.append("x-forwarded-for", HeaderValue::from_bytes(line).unwrap());
        }
        assert_eq!(forwarded_for(&headers, 0), None);
        assert_eq!(forwarded_for(&headers, 1), Some(&b"2001:db8::1"[..]));
        assert_eq!(forwarded_for(&headers, 2), Some(&b"\xff"[..]));
        assert_eq!(forwarded_for(&headers, 4), None);
    }

    #[test]
    fn only_limits_with_a_key_are_asked_and_costs_are_in_range() {
        let second = Duration::from_secs(1);
        let limits = [
            Limit::new(
                "a",
                Algorithm::fixed(second, 3).option("OFFSET", "8h"),
                constant("k"),
            ),
            Limit::new("b", Algorithm::sliding([(second, 3)]), constant("k")).cost(|_| u64::MAX),
            Limit::new("c", Algorithm::counter(second, 3), by_header("x-user")),
        ];
        let (parts, ()) = Request::new(()).into_parts();
        let words = |limits, tag| -> Vec<u8> {
            let (_, command) = question(limits, tag, &parts);
            let words = command.args_iter().map(|word| match word {
                redis::Arg::Simple(word) => word,
                _ => b"?",
            });
            words.collect::<Vec<_>>().join(&b' ')
        };
        assert_eq!(
            words(&limits[..1], None),
            b"RL.FIXED rl:a:k 1000ms 3 OFFSET 8h"
        );
        let all = b"RL.ALL FIXED rl:{t}:a:k 1000ms 3 OFFSET 8h SLIDING rl:{t}:b:k 1000ms 3 COST 4294967295";
        assert_eq!(words(&limits, Some(b"t")), all);
        assert!(question(&limits[2..], None, &parts).0.is_empty());
    }

    #[test]
    fn names_are_such_that_no_two_limits_meet_in_one_key() {
        let limit = |name: &str| {
            let second = Duration::from_secs(1);
            Limit::new(name, Algorithm::fixed(second, 3), constant("k"))
        };
        assert_eq!(limit("per-user_v1.2").name, "per-user_v1.2");
        for name in ["", "a:b", "a b", "a\"", "{a}", "\u{fc}"] {
            assert!(
                std::panic::catch_unwind(|| limit(name)).is_err(),
                "{name:?}"
            );
        }
    }

    #[test]
    fn a_hash_tag_has_no_braces() {
        assert_eq!(without_braces(b"}{%a"), b"%7D%7B%25a");
    }
}

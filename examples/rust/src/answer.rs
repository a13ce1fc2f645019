//! From the reply to headers and to responses: status, headers and body are those of ../README.md.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, Entry, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use redis::{ErrorKind, RedisResult, Value, from_redis_value};

use crate::Limit;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// What Redis says of one limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decision {
    allowed: bool,
    limit: i64,
    remaining: i64,
    wait_ms: i64,
    reset_ms: i64,
}

/// The decisions in the reply to a question about so many limits.
pub(crate) fn decisions(reply: Value, count: usize) -> RedisResult<Vec<Decision>> {
    let fives = if count == 1 {
        vec![from_redis_value(reply)?]
    } else {
        let clauses = from_redis_value::<Vec<Value>>(reply)?.into_iter().skip(2);
        clauses.map(from_redis_value).collect::<Result<_, _>>()?
    };
    if fives.len() != count {
        return Err((ErrorKind::UnexpectedReturnType, "not one decision a limit").into());
    }
    let decision = |[allowed, limit, remaining, wait_ms, reset_ms]: [i64; 5]| Decision {
        allowed: allowed == 1,
        limit,
        remaining,
        wait_ms,
        reset_ms,
    };
    Ok(fives.into_iter().map(decision).collect())
}

/// How long to hold a request that all allow, `None` if one denies. Where all allow, one that would hold it for
/// longer than `max_wait` denies, too, until it would not.
pub(crate) fn hold(decisions: &mut [Decision], max_wait: Duration) -> Option<Duration> {
    if decisions.iter().any(|decision| !decision.allowed) {
        return None;
    }
    let max_wait = i64::try_from(max_wait.as_millis()).unwrap_or(i64::MAX);
    for decision in decisions.iter_mut() {
        if decision.wait_ms > max_wait {
            decision.allowed = false;
            decision.wait_ms -= max_wait;
        }
    }
    let longest = decisions.iter().map(|decision| decision.wait_ms).max()?;
    let all_allow = decisions.iter().all(|decision| decision.allowed);
    all_allow.then(|| Duration::from_millis(longest.try_into().unwrap_or(0)))
}

/// The headers that tell of these limits.
pub(crate) fn fields(limits: &[&Limit], decisions: &[Decision], legacy: bool) -> HeaderMap {
    let (policies, states): (Vec<_>, Vec<_>) = limits
        .iter()
        .zip(decisions)
        .map(|(limit, decision)| {
            let (name, q, r) = (&limit.name, decision.limit, decision.remaining);
            let (w, t) = (limit.algorithm.window(q), seconds(decision.reset_ms));
            // An integer of a structured field has at most 15 digits (RFC 9651).
            const MOST: i64 = 999_999_999_999_999;
            let (q, r, w) = (q.min(MOST), r.min(MOST), w.min(MOST as u128));
            (
                format!("\"{name}\";q={q};w={w}"),
                format!("\"{name}\";r={r};t={t}"),
            )
        })
        .unzip();
    let mut fields = HeaderMap::new();
    for (name, list) in [(POLICY, policies), (STATE, states)] {
        // It always is a value: names are printable ASCII.
        if let Ok(value) = HeaderValue::try_from(list.join(", ")) {
            fields.insert(name, value);
        }
    }
    if legacy && let Some(speaker) = speaker(decisions) {
        for (name, value) in [
            ("x-ratelimit-limit", speaker.limit),
            ("x-ratelimit-remaining", speaker.remaining),
            ("x-ratelimit-reset", seconds(speaker.reset_ms)),
        ] {
            fields.insert(name, value.into());
        }
    }
    fields
}

/// The first that denies, else the one with the smallest share left; of equals the earlier.
fn speaker(decisions: &[Decision]) -> Option<&Decision> {
    let share = |one: &Decision, of: &Decision| i128::from(one.remaining) * i128::from(of.limit);
    decisions.iter().find(|one| !one.allowed).or_else(|| {
        decisions
            .iter()
            .min_by(|a, b| share(a, b).cmp(&share(b, a)))
    })
}

/// Adds the headers to a response. What a layer further inside told of its own limits stays: the standard headers are
/// lists, the classic ones speak for one limit.
pub(crate) fn add(fields: HeaderMap, response: &mut HeaderMap) {
    for (name, value) in &fields {
        match response.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(value.clone());
            }
            Entry::Occupied(mut entry) if [POLICY, STATE].contains(name) => {
                entry.append(value.clone());
            }
            Entry::Occupied(_) => {}
        }
    }
}

/// The response to a request that some of these limits deny.
pub(crate) fn limited(
    limits: &[&Limit],
    decisions: &[Decision],
    mut fields: HeaderMap,
) -> Response<String> {
    let (names, waits): (Vec<_>, Vec<_>) = limits
        .iter()
        .zip(decisions)
        .filter(|(_, decision)| !decision.allowed)
        .map(|(limit, decision)| (limit.name.as_str(), decision.wait_ms))
        .unzip();
    let never = waits.iter().any(|wait| *wait < 0);
    let wait = waits.into_iter().max().filter(|_| !never);
    if let Some(wait) = wait {
        fields.insert(RETRY_AFTER, seconds(wait).into());
    }
    let body = format!(
        concat!(
            r#"{{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
            r#""title":"Too Many Requests","status":429,"#,
            r#""detail":"Limit \"{}\" allows no more now.","#,
            r#""violated-policies":["{}"],"retry_after_ms":{}}}"#
        ),
        names.first().unwrap_or(&""),
        names.join(r#"",""#),
        wait.map_or("null".to_owned(), |wait| wait.to_string()),
    );
    problem(StatusCode::TOO_MANY_REQUESTS, fields, body)
}

/// The response while Redis is away.
pub(crate) fn unavailable() -> Response<String> {
    let fields = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("1"))]);
    let body = concat!(
        r#"{"type":"about:blank","title":"Service Unavailable","status":503,"#,
        r#""detail":"The rate limiter does not answer."}"#
    );
    problem(StatusCode::SERVICE_UNAVAILABLE, fields, body.to_owned())
}

fn problem(status: StatusCode, mut fields: HeaderMap, body: String) -> Response<String> {
    let json = HeaderValue::from_static("application/problem+json");
    fields.insert(CONTENT_TYPE, json);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = fields;
    response
}

/// Rounded up.
fn seconds(ms: i64) -> i64 {
    ms / 1000 + i64::from(ms % 1000 > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Rate, constant};

    fn limits() -> [Limit; 2] {
        let second = Duration::from_secs(1);
        let tiers = Algorithm::sliding([(10 * second, 3), (60 * second, 5)]);
        let bucket = Algorithm::leaky(5, Rate::per_second(2));
        [("tiers", tiers), ("bucket", bucket)]
            .map(|(name, algorithm)| Limit::new(name, algorithm, constant("all")))
    }

    fn decided(rows: [[i64; 5]; 2]) -> Vec<Decision> {
        let rows = rows.map(|row| Value::Array(row.map(Value::Int).into()));
        let reply = [Value::Int(1), Value::Int(-1)].into_iter().chain(rows);
        decisions(Value::Array(reply.collect()), 2).unwrap()
    }

    #[test]
    fn headers_round_up_and_speak_for_the_tier_of_the_reply() {
        let limits = limits();
        let decisions = decided([[1, 5, 1, 0, 59_001], [1, 5, 1, 0, 1]]);
        let fields = fields(&limits.each_ref(), &decisions, true);
        assert_eq!(fields[POLICY], r#""tiers";q=5;w=60, "bucket";q=5;w=3"#);
        assert_eq!(fields[STATE], r#""tiers";r=1;t=60, "bucket";r=1;t=1"#);
        assert_eq!(fields["x-ratelimit-reset"], "60"); // of equal shares the earlier
    }

    #[test]
    fn integers_end_where_those_of_structured_fields_do() {
        let slow = Rate::new(1, Duration::from_millis(u64::MAX));
        let bucket = Algorithm::token((1 << 53) - 1, slow);
        let limit = Limit::new("b", bucket, constant("k"));
        let most = (1 << 53) - 1;
        let decision = decided([[1, most, most - 1, 0, 1]; 2]).remove(0);
        let fields = fields(&[&limit], &[decision], false);
        assert_eq!(fields[POLICY], r#""b";q=999999999999999;w=999999999999999"#);
        assert_eq!(fields[STATE], r#""b";r=999999999999999;t=1"#);
    }

    #[test]
    fn refusal_tells_the_longest_wait_unless_it_never_ends() {
        let limits = limits();
        for (waits, told, seconds) in [
            (
                [1_000, 1_001],
                r#"["tiers","bucket"],"retry_after_ms":1001}"#,
                Some("2"),
            ),
            (
                [7, -1],
                r#"["tiers","bucket"],"retry_after_ms":null}"#,
                None,
            ),
        ] {
            let decisions = decided(waits.map(|wait| [0, 3, 0, wait, 1]));
            let response = limited(&limits.each_ref(), &decisions, HeaderMap::new());
            assert!(response.body().ends_with(told), "{}", response.body());
            let retry_after = response.headers().get(RETRY_AFTER);
            assert_eq!(
                retry_after.map(HeaderValue::as_bytes),
                seconds.map(str::as_bytes)
            );
        }
    }

    #[test]
    fn a_hold_beyond_the_longest_is_a_refusal() {
        let mut decisions = decided([[1, 3, 2, 0, 1], [1, 5, 1, 600, 1]]);
        let ms = Duration::from_millis;
        assert_eq!(hold(&mut decisions, ms(600)), Some(ms(600)));
        assert_eq!(hold(&mut decisions, ms(599)), None);
        assert_eq!((decisions[0].allowed, decisions[1].allowed), (true, false));
        assert_eq!(decisions[1].wait_ms, 1);
    }

    #[test]
    fn a_layer_inside_keeps_what_it_told() {
        let field = |name, value| HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        let (mut response, legacy) = (
            field(STATE, "inside"),
            HeaderName::from_static("x-ratelimit-limit"),
        );
        add(field(STATE, "outside"), &mut response);
        assert!(response.get_all(STATE).iter().eq(["inside", "outside"]));
        add(field(legacy.clone(), "3"), &mut response);
        add(field(legacy.clone(), "100"), &mut response);
        assert!(response.get_all(legacy).iter().eq(["3"]));
    }
}

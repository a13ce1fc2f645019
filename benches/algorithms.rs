//! What the algorithms cost without a server: a call reads a state from bytes, decides, and writes what changed, as its command does.
//!
//! `cargo bench` runs all, in about a minute; `cargo bench -- sliding` those with that word in their name.

use std::hint::black_box;
use std::time::Duration;

use criterion::Criterion;
use redis_rl::limiter::bucket::{self, Bucket};
use redis_rl::limiter::counter::{self, ANY, Counter, FEW};
use redis_rl::limiter::fixed::{self, Fixed};
use redis_rl::limiter::sliding::{self, Tier};
use redis_rl::limiter::{Decision, Intent, Micros, Millis, Outcome, Rate};
use redis_rl::state::log::{Change, View};
use redis_rl::state::{Blob, Leaky, Token, Writer};

const NOW: Millis = Millis(1_699_999_200_000);
const MINUTE: Millis = Millis(60_000);

fn main() {
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(700))
        .sample_size(50)
        .configure_from_args();
    fixed_window(&mut criterion);
    buckets(&mut criterion);
    counters(&mut criterion);
    logs(&mut criterion);
    blobs(&mut criterion);
    criterion.final_summary();
}

/// Calls of one limiter, one after the other.
struct Calls {
    /// At most so much: of a bucket its capacity.
    limit: u64,
    /// The cost of each call before those that are measured.
    first_cost: u64,
    /// How many of these there are.
    first: usize,
    /// From one call to the next.
    step: Millis,
}

/// What a key holds, nothing at first, and one call: its limit, its cost and its time.
type Call<'a> = &'a dyn Fn(&mut Vec<u8>, u64, u64, Millis) -> Decision;

/// Measures calls for 1 that must all be allowed.
fn allowed(criterion: &mut Criterion, name: &str, calls: &Calls, call: Call) {
    let (mut key, mut now) = filled(calls, call);
    criterion.bench_function(&format!("{name} allowed"), |bencher| {
        bencher.iter(|| {
            now = now + calls.step;
            call(&mut key, black_box(calls.limit), 1, black_box(now))
        });
    });
    assert!(call(&mut key, calls.limit, 1, now + calls.step).allowed);
}

/// Measures calls for 1 at the time of the last that was allowed.
fn denied(criterion: &mut Criterion, name: &str, calls: &Calls, call: Call) {
    let (mut key, now) = filled(calls, call);
    assert!(!call(&mut key, calls.limit, 1, now).allowed);
    criterion.bench_function(&format!("{name} denied"), |bencher| {
        bencher.iter(|| call(&mut key, black_box(calls.limit), 1, black_box(now)));
    });
}

/// Measures the first call on a key.
fn fresh(criterion: &mut Criterion, name: &str, call: Call) {
    let mut key = Vec::new();
    criterion.bench_function(&format!("{name} fresh"), |bencher| {
        bencher.iter(|| {
            key.clear();
            call(&mut key, black_box(1_000_000), 1, black_box(NOW))
        });
    });
}

/// A key after the calls before those that are measured, and the time of the last of them.
fn filled(calls: &Calls, call: Call) -> (Vec<u8>, Millis) {
    let (mut key, mut now) = (Vec::new(), NOW);
    for _ in 0..calls.first {
        now = now + calls.step;
        assert!(call(&mut key, calls.limit, calls.first_cost, now).allowed);
    }
    (key, now)
}

/// The one request that there is room for.
const FULL: Calls = Calls {
    limit: 1,
    first_cost: 1,
    first: 1,
    step: Millis::ZERO,
};

/// A request in each millisecond.
const BUSY: Calls = Calls {
    limit: 1_000_000,
    first_cost: 1,
    first: 60_000,
    step: Millis(1),
};

fn write(key: &mut Vec<u8>, state: &impl Blob) {
    key.resize(state.encoded_len(), 0);
    state.write(&mut Writer::new(key));
}

fn fixed_window(criterion: &mut Criterion) {
    let call: Call = &|key, max, cost, now| {
        let quota = fixed::Quota {
            window: MINUTE,
            max,
            offset: Millis::ZERO,
        };
        let outcome = fixed::decide(Fixed::decode(key), &quota, cost, now, Intent::Take);
        if let Some(next) = &outcome.next {
            write(key, next);
        }
        outcome.decision
    };
    fresh(criterion, "fixed", call);
    allowed(criterion, "fixed", &BUSY, call);
    denied(criterion, "fixed", &FULL, call);
}

fn token(key: &mut Vec<u8>, quota: &bucket::Quota, cost: u64, now: Millis) -> Decision {
    let state = Token::decode(key).map(|token| token.0);
    let outcome = bucket::decide_token(state, quota, cost, now.to_micros(), Intent::Take);
    written(key, outcome, Token::of)
}

fn leaky(key: &mut Vec<u8>, quota: &bucket::Quota, cost: u64, now: Millis) -> Decision {
    let state = Leaky::decode(key).map(|leaky| leaky.0);
    let outcome = bucket::decide_leaky(state, quota, cost, now.to_micros(), Intent::Take);
    written(key, outcome, Leaky::of)
}

fn written<B: Blob>(key: &mut Vec<u8>, outcome: Outcome<Bucket>, of: fn(Bucket) -> B) -> Decision {
    if let Some(next) = outcome.next {
        write(key, &of(next));
    }
    outcome.decision
}

fn buckets(criterion: &mut Criterion) {
    // Half full, it loses between two calls about what each adds.
    let half_full = |limit, step| Calls {
        limit,
        first_cost: limit / 2,
        first: 1,
        step: Millis(step),
    };
    let ten = Rate::per_second(10, 0).expect("a rate");
    let plain = |capacity| bucket::Quota {
        capacity,
        rate: ten,
    };
    for (name, algorithm) in [
        ("token", token as fn(&mut _, &_, _, _) -> _),
        ("leaky", leaky),
    ] {
        let call: Call = &|key, capacity, cost, now| algorithm(key, &plain(capacity), cost, now);
        fresh(criterion, name, call);
        allowed(criterion, name, &half_full(1_000, 100), call);
        denied(criterion, name, &FULL, call);
    }

    // Six decimals and a large capacity: amounts that 64 bits do not hold.
    let rate = Rate::per_second(333_333, 6).expect("a rate");
    let call: Call = &|key, capacity, cost, now| {
        let quota = bucket::Quota { capacity, rate };
        token(key, &quota, cost, now)
    };
    let name = "token 128 bit";
    allowed(criterion, name, &half_full(1_000_000_000, 3_000), call);

    // A rate that changes with each call: every time the amount goes into another denominator.
    let rates = [(3, 7_000), (5, 11_000)];
    let rates = rates.map(|(units, ms)| Rate::per(units, Millis(ms)).expect("a rate"));
    let call: Call = &|key, capacity, cost, now| {
        let rate = rates[usize::from(now.0 / 2_263 % 2 == 0)];
        token(key, &bucket::Quota { capacity, rate }, cost, now)
    };
    let name = "token two rates";
    allowed(criterion, name, &half_full(1_000_000, 2_263), call);
}

fn count<const ROOM: usize>(
    key: &mut Vec<u8>,
    quota: &counter::Quota,
    cost: u64,
    now: Millis,
) -> Decision {
    let state = Counter::<ROOM>::decode(key);
    let mut counter = state.unwrap_or_else(|| Counter::for_quota(quota));
    let verdict = counter::decide(&mut counter, quota, cost, now, Intent::Take);
    if verdict.is_changed {
        write(key, &counter);
    }
    verdict.decision
}

fn counters(criterion: &mut Criterion) {
    let quota = |max, buckets| counter::Quota {
        window: MINUTE,
        max,
        buckets,
    };
    let few: Call = &|key, max, cost, now| count::<FEW>(key, &quota(max, 10), cost, now);
    let many: Call = &|key, max, cost, now| count::<ANY>(key, &quota(max, 256), cost, now);
    for (name, call) in [("counter of 10", few), ("counter of 256", many)] {
        fresh(criterion, name, call);
        allowed(criterion, name, &BUSY, call);
        denied(criterion, name, &FULL, call);
    }
}

fn slide(key: &mut Vec<u8>, tier: Tier, cost: u64, now: Millis) -> Decision {
    let quota = sliding::Quota::new(tier);
    let log = View::read_at(key, now);
    let verdict = sliding::decide(&log, &quota, cost, now, Intent::Take);
    if !verdict.decision.allowed {
        return verdict.decision;
    }
    let change = match &log {
        Some(log) => Change::record(log, verdict.shift, verdict.time, cost, tier).expect("room"),
        None => Change::create(verdict.time, cost, tier),
    };
    if let Some(len) = change.new_len() {
        change.gather(key);
        key.resize(len, 0);
    }
    change.write(key);
    verdict.decision
}

fn logs(criterion: &mut Criterion) {
    // As many milliseconds as requests: a full log, in which one request leaves and one comes.
    let call: Call = &|key, max, cost, now| {
        let window = Millis(max as i64);
        slide(key, Tier { window, max }, cost, now)
    };
    fresh(criterion, "sliding", call);
    for requests in [100, 60_000, 1_000_000] {
        let calls = Calls {
            limit: requests,
            first_cost: 1,
            first: requests as usize * 3 / 2,
            step: Millis(1),
        };
        let name = format!("sliding {requests}");
        allowed(criterion, &name, &calls, call);
        denied(criterion, &name, &calls, call);
    }
}

fn blobs(criterion: &mut Criterion) {
    let fixed = Fixed {
        start: NOW,
        window: MINUTE,
        count: 1_000,
    };
    blob(criterion, "fixed", &fixed);
    let bucket = Bucket {
        last: Micros(NOW.0 * 1_000),
        used: 1_000_000,
        scale: 1_000_000,
    };
    blob(criterion, "bucket", &Token::of(bucket));
    counter_blob::<FEW>(criterion, "counter of 10", 10);
    counter_blob::<ANY>(criterion, "counter of 256", 256);
}

fn counter_blob<const ROOM: usize>(criterion: &mut Criterion, name: &str, buckets: usize) {
    let mut counter = Counter::<ROOM>::empty(MINUTE, buckets);
    counter.counts_mut().fill(1_000);
    blob(criterion, name, &counter);
}

fn blob<B: Blob>(criterion: &mut Criterion, name: &str, state: &B) {
    let mut bytes = vec![0; state.encoded_len()];
    criterion.bench_function(&format!("write {name}"), |bencher| {
        bencher.iter(|| {
            // What is there already is not written again.
            bytes.fill(0);
            black_box(state).write(&mut Writer::new(&mut bytes));
        });
    });
    criterion.bench_function(&format!("read {name}"), |bencher| {
        bencher.iter(|| B::decode(black_box(&bytes)).expect("a state"));
    });
}

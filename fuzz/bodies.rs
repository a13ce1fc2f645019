//! What is fuzzed: argument texts, stored bytes, and sequences of calls. Each takes any bytes and panics where something is wrong.

use redis_rl::commands::grammar;
use redis_rl::limiter::bucket::{self, Bucket};
use redis_rl::limiter::counter::{self, Counter};
use redis_rl::limiter::fixed::{self, Fixed};
use redis_rl::limiter::sliding::{self, Log, MAX_COST, MAX_WINDOW, Tier};
use redis_rl::limiter::{Decision, Intent, MAX_INTEGER, Micros, Millis, Rate};
use redis_rl::state::log::{Change, View};
use redis_rl::state::{Blob, Leaky, State, Token, Writer};

const YEAR: Millis = Millis(366 * Millis::DAY.0);

/// The texts of numbers, durations and rates.
pub fn grammar(text: &[u8]) {
    if let Some(integer) = grammar::integer(text) {
        assert_eq!(integer.to_string().as_bytes(), text);
    }
    if let Some(Millis(millis)) = grammar::duration(text, YEAR) {
        assert!((1..=YEAR.0).contains(&millis));
        let again = format!("{millis}ms");
        assert_eq!(
            grammar::duration(again.as_bytes(), YEAR),
            Some(Millis(millis))
        );
    }
    if let Some(rate) = grammar::rate(text, YEAR) {
        assert!(rate.units > 0 && rate.micros > 0);
        assert!(rate.units < 1 << 73 && rate.micros < 1 << 45);
    }
}

/// Takes values off the front of some bytes; zeros once they have run out.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn number<const N: usize>(&mut self) -> u64 {
        let mut bytes = [0; 8];
        for byte in &mut bytes[..N] {
            if let [first, rest @ ..] = self.0 {
                *byte = *first;
                self.0 = rest;
            }
        }
        u64::from_le_bytes(bytes)
    }

    /// From 0 to `most`: small, or anything.
    fn up_to(&mut self, most: u64) -> u64 {
        let number = match self.number::<1>() % 4 {
            0 => self.number::<1>(),
            1 => self.number::<2>(),
            2 => self.number::<8>(),
            _ => most - self.number::<1>().min(most),
        };
        if most == u64::MAX {
            number
        } else {
            number % (most + 1)
        }
    }

    fn one_to(&mut self, most: u64) -> u64 {
        self.up_to(most - 1) + 1
    }

    fn time(&mut self) -> Millis {
        Millis(self.up_to(MAX_INTEGER) as i64)
    }

    fn rate(&mut self) -> Rate {
        let units = self.one_to(MAX_INTEGER);
        let rate = if self.number::<1>().is_multiple_of(2) {
            Rate::per_second(units.into(), (self.number::<1>() % 7) as u32)
        } else {
            Rate::per(units, Millis(self.one_to(YEAR.0 as u64) as i64))
        };
        rate.expect("neither is zero")
    }

    fn tiers(&mut self) -> Vec<Tier> {
        let count = self.number::<1>() % 3 + 1;
        let tier = |_| Tier {
            window: Millis(self.one_to(MAX_WINDOW.0 as u64) as i64),
            max: self.up_to(MAX_COST),
        };
        (0..count).map(tier).collect()
    }
}

fn is_sound(decision: &Decision) {
    assert!(decision.remaining <= decision.limit);
    assert!((0..=Millis::MAX.0).contains(&decision.reset.0));
    assert!(
        decision
            .wait
            .is_none_or(|wait| wait.0 >= 0 && wait <= Millis::MAX)
    );
    assert!(!decision.allowed || decision.wait.is_some());
}

fn encode<B: Blob>(state: &B) -> Vec<u8> {
    let mut bytes = vec![0; state.encoded_len()];
    state.write(&mut Writer::new(&mut bytes));
    bytes
}

/// What was stored is what is read.
fn survives<B: Blob + PartialEq + std::fmt::Debug>(state: &B) {
    assert_eq!(B::decode(&encode(state)).as_ref(), Some(state));
}

fn quota(tiers: &[Tier]) -> sliding::Quota {
    let mut quota = sliding::Quota::new(tiers[0]);
    for tier in &tiers[1..] {
        assert!(quota.push(*tier));
    }
    quota
}

/// What the command does to the bytes of a log. Answers the decision.
fn slide(bytes: &mut Option<Vec<u8>>, tiers: &[Tier], cost: u64, now: Millis) -> Decision {
    let quota = quota(tiers);
    let view = bytes
        .as_deref()
        .map(|bytes| View::read(bytes).expect("a log"));
    let verdict = sliding::decide(&view, &quota, cost, now, Intent::Take);
    let change = match &view {
        Some(view) if verdict.decision.allowed => {
            let longest = quota.longest();
            Change::record(view, verdict.shift, verdict.time, cost, longest).expect("a short log")
        }
        Some(view) if verdict.shift > Millis::ZERO => Change::shift(view, verdict.shift),
        None if verdict.decision.allowed => Change::create(verdict.time, cost, quota.longest()),
        _ => return verdict.decision,
    };
    let mut changed = bytes.take().unwrap_or_default();
    if let Some(len) = change.new_len() {
        change.gather(&mut changed);
        changed.resize(len, 0);
    }
    change.write(&mut changed);
    *bytes = Some(changed);
    verdict.decision
}

/// Bytes that a key may hold, ours or not: read, decided on, written back.
pub fn blobs(bytes: &[u8]) {
    let (parameters, stored) = bytes.split_at(bytes.len().min(24));
    let mut reader = Reader(parameters);
    let (now, cost, max) = (
        reader.time(),
        reader.one_to(MAX_COST),
        reader.up_to(MAX_INTEGER),
    );
    let window = Millis(reader.one_to(MAX_WINDOW.0 as u64) as i64);
    let rate = Rate::per_second(reader.one_to(1000).into(), 3).expect("not zero");

    let Some(state) = State::read(stored) else {
        return;
    };
    assert!(State::fits(stored.len()));
    match state {
        State::Fixed(state) => {
            assert_eq!(encode(&state), stored);
            let quota = fixed::Quota {
                window,
                max,
                offset: Millis(7),
            };
            let outcome = fixed::decide(Some(state), &quota, cost, now, Intent::Take);
            is_sound(&outcome.decision);
            outcome.next.iter().for_each(survives);
        }
        State::Token(Token { 0: bucket, .. }) | State::Leaky(Leaky { 0: bucket, .. }) => {
            let quota = bucket::Quota {
                capacity: max,
                rate,
            };
            let now = now.to_micros();
            let outcome = bucket::decide_leaky(Some(bucket), &quota, cost, now, Intent::Take);
            is_sound(&outcome.decision);
            outcome.next.map(Leaky::of).iter().for_each(survives);
        }
        State::Counter(mut state) => {
            assert_eq!(encode(&*state), stored);
            let quota = counter::Quota {
                window,
                max,
                buckets: 3,
            };
            let verdict = counter::decide(&mut state, &quota, cost, now, Intent::Take);
            is_sound(&verdict.decision);
            if verdict.is_changed {
                survives(&*state);
            }
        }
        State::Sliding(_) => {
            let mut log = Some(stored.to_vec());
            let tiers = [
                Tier {
                    window,
                    max: max.min(MAX_COST),
                },
                Tier {
                    window: Millis(5),
                    max: 9,
                },
            ];
            slide(&mut log, &tiers, cost, now);
            slide(&mut log, &tiers, 1, Millis(now.0 / 2));
            slide(&mut log, &tiers[1..], 1, Millis(now.0 + 1));
        }
    }
}

/// A log that keeps every request.
#[derive(Default)]
struct Plain(Vec<(Millis, u64)>);

impl Log for Plain {
    fn newest(&self) -> Option<Millis> {
        self.0.last().map(|(time, _)| *time)
    }

    fn cost_after(&self, after: Millis) -> u64 {
        let later = self.0.iter().filter(|(time, _)| *time > after);
        later.map(|(_, cost)| cost).sum()
    }

    fn time_of_cost(&self, after: Millis, cost: u64) -> Option<Millis> {
        let mut sum = 0;
        let mut later = self.0.iter().filter(|(time, _)| *time > after);
        later
            .find(|(_, cost_here)| {
                sum += cost_here;
                sum >= cost
            })
            .map(|(time, _)| *time)
    }
}

/// Allowed after its wait, and not a moment before, if that can be told at all.
fn waits_rightly(decision: &Decision, now: Millis, allowed_at: impl Fn(Millis) -> bool) {
    is_sound(decision);
    if let (false, Some(wait)) = (decision.allowed, decision.wait)
        && wait < Millis::MAX
        && now + wait <= Millis::MAX
    {
        assert!(allowed_at(now + wait));
        assert!(!allowed_at(now + wait - Millis(1)));
    }
}

/// Sequences of calls on one key of each algorithm.
pub fn limiters(bytes: &[u8]) {
    let mut reader = Reader(bytes);
    let mut now = reader.time();
    let (mut window, mut max) = (
        Millis(reader.one_to(YEAR.0 as u64) as i64),
        reader.up_to(MAX_INTEGER),
    );
    let mut rate = reader.rate();
    let mut tiers = reader.tiers();
    let (mut fixed, mut bucket, mut counts): (Option<Fixed>, Option<Bucket>, Option<Counter>) =
        (None, None, None);
    let (mut log, mut plain) = (None, Plain::default());
    let mut calls = 0;
    while !reader.is_empty() && calls < 64 {
        calls += 1;
        match reader.number::<1>() % 8 {
            0 => now = reader.time(),
            1 => {
                now = Millis(
                    now.0
                        .saturating_sub(reader.up_to(window.0 as u64) as i64)
                        .max(0),
                )
            }
            2 => window = Millis(reader.one_to(YEAR.0 as u64) as i64),
            3 => max = reader.up_to(MAX_INTEGER),
            4 => rate = reader.rate(),
            _ => now = (now + Millis(reader.up_to(window.0 as u64) as i64)).min(Millis::MAX),
        }
        let cost = reader.one_to(max.max(1));

        let quota = fixed::Quota {
            window,
            max,
            offset: Millis(25),
        };
        let outcome = fixed::decide(fixed, &quota, cost, now, Intent::Take);
        fixed = outcome.next.or(fixed);
        fixed.iter().for_each(survives);
        waits_rightly(&outcome.decision, now, |then| {
            fixed::decide(fixed, &quota, cost, then, Intent::Look)
                .decision
                .allowed
        });

        let quota = bucket::Quota {
            capacity: max,
            rate,
        };
        let outcome = bucket::decide_token(bucket, &quota, cost, now.to_micros(), Intent::Take);
        bucket = outcome.next.or(bucket);
        bucket.map(Token::of).iter().for_each(survives);
        waits_rightly(&outcome.decision, now, |Millis(then)| {
            let then = Micros(then * 1000);
            bucket::decide_token(bucket, &quota, cost, then, Intent::Look)
                .decision
                .allowed
        });

        let buckets = 1 + (window.0 % 16) as usize;
        let quota = counter::Quota {
            window,
            max,
            buckets,
        };
        let mut counter = counts.clone().unwrap_or_else(|| Counter::for_quota(&quota));
        let verdict = counter::decide(&mut counter, &quota, cost, now, Intent::Take);
        if verdict.is_changed {
            survives(&counter);
            counts = Some(counter.clone());
        }
        let left = counts.clone().unwrap_or(counter);
        waits_rightly(&verdict.decision, now, |then| {
            counter::decide(&mut left.clone(), &quota, cost, then, Intent::Look)
                .decision
                .allowed
        });

        // The compact log against the plain one. Its windows stay, as it forgets what no call needs.
        for tier in &mut tiers {
            tier.max = max.min(MAX_COST);
        }
        let cost = cost.min(MAX_COST);
        let verdict = sliding::decide(&plain, &self::quota(&tiers), cost, now, Intent::Take);
        for (time, _) in &mut plain.0 {
            *time = *time - verdict.shift;
        }
        if verdict.decision.allowed {
            plain.0.push((verdict.time, cost));
        }
        let decision = slide(&mut log, &tiers, cost, now);
        assert_eq!(decision, verdict.decision);
        waits_rightly(&decision, now, |then| {
            let view = log.as_deref().and_then(View::read);
            sliding::decide(&view, &self::quota(&tiers), cost, then, Intent::Look)
                .decision
                .allowed
        });
        // So that most calls find room.
        tiers.rotate_left(1);
    }
}

use std::fmt::Debug;

use proptest::prelude::*;

use crate::limiter::bucket::Bucket;
use crate::limiter::counter::{Counter, MAX_BUCKETS, MAX_COUNT};
use crate::limiter::fixed::Fixed;
use crate::limiter::{MAX_INTEGER, Micros, Millis};
use crate::state::{Blob, Leaky, State, Token, Writer};

const YEAR: i64 = 366 * Millis::DAY.0;

fn fixed() -> impl Strategy<Value = Fixed> {
    let time = -(MAX_INTEGER as i64)..=MAX_INTEGER as i64;
    (time, 1..=YEAR, 1..=MAX_INTEGER).prop_map(|(start, window, count)| Fixed {
        start: Millis(start),
        window: Millis(window),
        count,
    })
}

fn bucket() -> impl Strategy<Value = Bucket> {
    let time = 0..=Millis::MAX.to_micros().0;
    (time, 1..=Bucket::MAX_SCALE, any::<u128>()).prop_map(|(last, scale, used)| Bucket {
        last: Micros(last),
        used: used % Bucket::max_used(scale) + 1,
        scale,
    })
}

fn counter() -> impl Strategy<Value = Counter> {
    let counts = prop_oneof![
        prop::collection::vec(0..=u64::from(u32::MAX), 2..40),
        prop::collection::vec(0..=MAX_COUNT, 2..=MAX_BUCKETS + 1)
    ];
    (1..=YEAR, 0..100_000_i64, counts).prop_map(|(sub_window, latest, mut counts)| {
        counts[0] = counts[0].max(1);
        let mut counter = <Counter>::empty(Millis(sub_window), counts.len() - 1);
        counter.latest = latest;
        counter.counts_mut().copy_from_slice(&counts);
        counter
    })
}

fn encode<B: Blob>(state: &B) -> Vec<u8> {
    let mut bytes = vec![0; state.encoded_len()];
    state.write(&mut Writer::new(&mut bytes));
    bytes
}

fn round_trips<B: Blob + PartialEq + Debug>(state: &B) {
    let bytes = encode(state);
    assert!(B::fits(bytes.len()) && State::fits(bytes.len()));
    assert_eq!(B::decode(&bytes).as_ref(), Some(state));
    assert!(State::read(&bytes).is_some());
}

/// Whatever decodes is what encoding it gives. Answers whether it does.
fn is_canonical<B: Blob>(bytes: &[u8]) -> bool {
    let state = B::decode(bytes);
    if let Some(state) = &state {
        assert_eq!(encode(state), bytes);
        assert!(B::fits(bytes.len()));
    }
    state.is_some()
}

/// How many of the kinds take `bytes` for theirs.
fn takers(bytes: &[u8]) -> usize {
    let takers = [
        is_canonical::<Fixed>(bytes),
        is_canonical::<Token>(bytes),
        is_canonical::<Leaky>(bytes),
        is_canonical::<Counter>(bytes),
    ];
    takers.into_iter().filter(|takes| *takes).count()
}

/// Bytes near a state: one of its bytes changed, or some cut off or put on.
fn near(bytes: &[u8], at: usize, byte: u8, len: usize) -> Vec<u8> {
    let mut near = bytes.to_vec();
    let at = at % near.len();
    near[at] = byte;
    near.resize(len, byte);
    near
}

proptest! {
    #[test]
    fn states_round_trip(fixed in fixed(), bucket in bucket(), counter in counter()) {
        round_trips(&fixed);
        round_trips(&Token::of(bucket));
        round_trips(&Leaky::of(bucket));
        round_trips(&counter);
    }

    #[test]
    fn nothing_else_decodes(
        fixed in fixed(), bucket in bucket(), counter in counter(),
        at in any::<usize>(), byte in any::<u8>(), longer in -9..9_isize,
    ) {
        let states = [
            encode(&fixed), encode(&Token::of(bucket)), encode(&Leaky::of(bucket)), encode(&counter),
        ];
        for state in states {
            prop_assert_eq!(takers(&state), 1);
            prop_assert!(takers(&near(&state, at, byte, state.len())) <= 1);
            let len = state.len().saturating_add_signed(longer);
            // Only a counter has states of several lengths.
            let others = usize::from(state[0] == 0xA5 || len == state.len());
            prop_assert!(takers(&near(&state, 0, state[0], len)) <= others);
        }
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), tag in 0xA0..=0xA6_u8) {
        prop_assert!(takers(&bytes) <= 1);
        let mut bytes = bytes;
        bytes.splice(0..bytes.len().min(2), [tag, 1]);
        prop_assert!(takers(&bytes) <= 1);
        State::read(&bytes);
    }

    /// A write over an old state tells which bytes it changed, and leaves those of a fresh one.
    #[test]
    fn a_write_knows_what_it_changed(old in bucket(), new in bucket(), same in any::<bool>()) {
        let new = if same { Bucket { used: new.used, ..old } } else { new };
        let mut bytes = encode(&Token::of(old));
        let before = bytes.clone();
        let mut writer = Writer::new(&mut bytes);
        Token::of(new).write(&mut writer);
        let (start, len) = writer.changed();
        prop_assert_eq!(&bytes, &encode(&Token::of(new)));
        prop_assert_eq!(&bytes[..start], &before[..start]);
        prop_assert_eq!(&bytes[start + len..], &before[start + len..]);
        prop_assert!(!same || len <= 16);
    }
}

#[test]
fn values_out_of_bounds_are_refused() {
    let fixed = Fixed {
        start: Millis(0),
        window: Millis(1),
        count: 1,
    };
    let token = Bucket {
        last: Micros(0),
        used: 1,
        scale: 1,
    };
    for refused in [
        Fixed { count: 0, ..fixed },
        Fixed {
            count: MAX_INTEGER + 1,
            ..fixed
        },
        Fixed {
            window: Millis(0),
            ..fixed
        },
        Fixed {
            window: Millis(366 * Millis::DAY.0 + 1),
            ..fixed
        },
        Fixed {
            start: Millis(i64::MAX),
            ..fixed
        },
        Fixed {
            start: Millis(i64::MIN),
            ..fixed
        },
    ] {
        assert_eq!(Fixed::decode(&encode(&refused)), None, "{refused:?}");
    }
    for refused in [
        Bucket { used: 0, ..token },
        Bucket {
            used: Bucket::max_used(1) + 1,
            ..token
        },
        Bucket { scale: 0, ..token },
        Bucket {
            scale: Bucket::MAX_SCALE + 1,
            ..token
        },
        Bucket {
            last: Micros(-1),
            ..token
        },
        Bucket {
            last: Micros(i64::MAX),
            ..token
        },
    ] {
        assert_eq!(
            Token::decode(&encode(&Token::of(refused))),
            None,
            "{refused:?}"
        );
    }
    let mut counter = <Counter>::empty(Millis(1000), 2);
    assert_eq!(
        <Counter>::decode(&encode(&counter)),
        None,
        "a counter that counted nothing"
    );
    counter.counts_mut()[0] = 1;
    let mut wide = encode(&counter);
    wide.resize(20 + 3 * 8, 0);
    assert_eq!(<Counter>::decode(&wide), None, "wider than it needs to be");
    counter.counts_mut()[0] = MAX_COUNT + 1;
    assert_eq!(<Counter>::decode(&encode(&counter)), None);
    counter.counts_mut()[0] = 1;
    counter.latest = i64::MAX;
    assert_eq!(<Counter>::decode(&encode(&counter)), None);
    let mut other_version = encode(&fixed);
    other_version[1] = 2;
    assert_eq!(Fixed::decode(&other_version), None);
}

#[test]
fn layouts_do_not_change() {
    let fixed = Fixed {
        start: Millis(0x0102),
        window: Millis(60_000),
        count: 3,
    };
    assert_eq!(
        encode(&fixed),
        [
            0xA1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0x60, 0xEA, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0
        ]
    );
    let bucket = Bucket {
        last: Micros(0x0102),
        used: 5,
        scale: 7,
    };
    let mut expected = [0; 34];
    expected[..4].copy_from_slice(&[0xA3, 1, 2, 1]);
    expected[10] = 7;
    expected[18] = 5;
    assert_eq!(encode(&Token::of(bucket)), expected);
    expected[0] = 0xA4;
    assert_eq!(encode(&Leaky::of(bucket)), expected);

    let mut counter = <Counter>::empty(Millis(1000), 2);
    counter.latest = 0x0102;
    counter.counts_mut().copy_from_slice(&[3, 0, 5]);
    let narrow: [&[u8]; 3] = [
        &[0xA5, 1, 2, 0, 0xE8, 3, 0, 0, 0, 0, 0, 0],
        &[2, 1, 0, 0, 0, 0, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0],
    ];
    assert_eq!(encode(&counter), narrow.concat());
    counter.counts_mut()[1] = 1 << 32;
    let wide: [&[u8]; 2] = [
        &narrow.concat()[..20],
        &[
            3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
        ],
    ];
    assert_eq!(encode(&counter), wide.concat());
}

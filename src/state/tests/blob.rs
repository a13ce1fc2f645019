use std::fmt::Debug;

use proptest::prelude::*;

use crate::limiter::bucket::Bucket;
use crate::limiter::fixed::Fixed;
use crate::limiter::{MAX_INTEGER, Micros, Millis};
use crate::state::{Blob, Tag, Token};

fn fixed() -> impl Strategy<Value = Fixed> {
    let time = -(MAX_INTEGER as i64)..=MAX_INTEGER as i64;
    (time, 1..=366 * Millis::DAY.0, 1..=MAX_INTEGER).prop_map(|(start, window, count)| Fixed {
        start: Millis(start),
        window: Millis(window),
        count,
    })
}

fn token() -> impl Strategy<Value = Token> {
    let time = 0..=Millis::MAX.to_micros().0;
    (time, 1..=Bucket::MAX_SCALE, any::<u128>()).prop_map(|(last, scale, used)| {
        Token(Bucket {
            last: Micros(last),
            used: used % Bucket::max_used(scale) + 1,
            scale,
        })
    })
}

fn round_trips<B: Blob + PartialEq + Debug>(state: &B) {
    let bytes = state.encode();
    assert_eq!(bytes.as_ref().len(), B::LEN);
    assert_eq!(B::decode(bytes.as_ref()).as_ref(), Some(state));
    assert_eq!(Tag::of(bytes.as_ref()), Some(B::TAG));
}

/// Whatever decodes is what encoding it gives.
fn is_canonical<B: Blob>(bytes: &[u8]) {
    if let Some(state) = B::decode(bytes) {
        assert_eq!(state.encode().as_ref(), bytes);
    }
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
    fn states_round_trip(fixed in fixed(), token in token()) {
        round_trips(&fixed);
        round_trips(&token);
    }

    #[test]
    fn nothing_else_decodes(
        fixed in fixed(), token in token(), at in any::<usize>(), byte in any::<u8>(), len in 0..48_usize,
    ) {
        for bytes in [near(&fixed.encode(), at, byte, len), near(&token.encode(), at, byte, len)] {
            is_canonical::<Fixed>(&bytes);
            is_canonical::<Token>(&bytes);
            let is_fixed = Fixed::decode(&bytes).is_some();
            let is_token = Token::decode(&bytes).is_some();
            prop_assert!(!(is_fixed && is_token));
            prop_assert!(!is_fixed || bytes.len() == Fixed::LEN);
            prop_assert!(!is_token || bytes.len() == Token::LEN);
        }
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        is_canonical::<Fixed>(&bytes);
        is_canonical::<Token>(&bytes);
        Tag::of(&bytes);
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
        assert_eq!(Fixed::decode(&refused.encode()), None, "{refused:?}");
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
        assert_eq!(Token::decode(&Token(refused).encode()), None, "{refused:?}");
    }
    let mut other_version = fixed.encode();
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
        fixed.encode(),
        [
            0xA1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0x60, 0xEA, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0
        ]
    );
    let token = Token(Bucket {
        last: Micros(0x0102),
        used: 5,
        scale: 7,
    });
    let mut expected = [0; 34];
    expected[..4].copy_from_slice(&[0xA3, 1, 2, 1]);
    expected[10] = 7;
    expected[18] = 5;
    assert_eq!(token.encode(), expected);
}

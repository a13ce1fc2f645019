//! How numbers, durations and rates are written. Pure: bytes in, a value or `None` out.

use crate::limiter::{MAX_INTEGER, Millis, Rate};

/// A decimal integer up to 2^53 - 1, as Redis writes them but without a sign: no leading zeros.
pub fn integer(text: &[u8]) -> Option<u64> {
    if text.len() > 1 && text.first() == Some(&b'0') {
        return None;
    }
    digits(text, 16).filter(|value| *value <= MAX_INTEGER)
}

/// One to `most` decimal digits, `most` being at most 19.
fn digits(text: &[u8], most: usize) -> Option<u64> {
    if text.is_empty() || text.len() > most {
        return None;
    }
    let mut value = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value)
}

/// A decimal number `a` or `a.b`, as `(ab, number of digits in b)`; trailing zeros of `b` do not count.
fn decimal(text: &[u8], most_decimals: usize) -> Option<(u128, u32)> {
    let Some(point) = text.iter().position(|byte| *byte == b'.') else {
        return Some((integer(text)?.into(), 0));
    };
    let (whole, fraction) = (text.get(..point)?, text.get(point + 1..)?);
    let zeros = fraction.iter().rev().take_while(|byte| **byte == b'0');
    let significant = fraction.get(..fraction.len() - zeros.count())?;
    let whole = u128::from(integer(whole)?);
    if significant.is_empty() {
        return (!fraction.is_empty()).then_some((whole, 0));
    }
    let fraction = digits(significant, most_decimals)?;
    let decimals = significant.len() as u32;
    Some((
        whole * 10_u128.pow(decimals) + u128::from(fraction),
        decimals,
    ))
}

/// The length that a unit stands for.
fn unit(text: &[u8]) -> Option<Millis> {
    match text {
        b"ms" => Some(Millis(1)),
        b"s" => Some(Millis(1000)),
        b"m" => Some(Millis(60_000)),
        b"h" => Some(Millis(3_600_000)),
        b"d" => Some(Millis::DAY),
        _ => None,
    }
}

/// Splits a number from the letters behind it.
fn split_unit(text: &[u8]) -> (&[u8], &[u8]) {
    let letters = text.iter().rev().take(3);
    let count = letters.take_while(|byte| byte.is_ascii_lowercase()).count();
    text.split_at(text.len() - count)
}

/// A number of seconds (`60`, `0.25`), or of a unit (`500ms`, `15m`, `1.5h`): whole milliseconds, from 1 ms to `longest`.
pub fn duration(text: &[u8], longest: Millis) -> Option<Millis> {
    const MOST_DECIMALS: usize = 9;
    const SECOND: Millis = Millis(1000);
    let (number, letters) = split_unit(text);
    let unit = if letters.is_empty() {
        SECOND
    } else {
        unit(letters)?
    };
    // As it is mostly written; the rest would come to the same, more slowly.
    if let Some(whole) = integer(number)
        && let Some(millis) = whole.checked_mul(unit.0 as u64)
    {
        return (1..=longest.0 as u64)
            .contains(&millis)
            .then_some(Millis(millis as i64));
    }
    let (value, decimals) = decimal(number, MOST_DECIMALS)?;
    let scaled = value * unit.0 as u128;
    let scale = 10_u128.pow(decimals);
    let millis = scaled / scale;
    let is_whole = millis * scale == scaled;
    (is_whole && (1..=longest.0 as u128).contains(&millis)).then_some(Millis(millis as i64))
}

/// Units per second (`10`, `0.5`), or `N/duration` (`100/60`, `100/1m`, `5/s`).
pub fn rate(text: &[u8], longest: Millis) -> Option<Rate> {
    const MOST_DECIMALS: usize = 6;
    match text.iter().position(|byte| *byte == b'/') {
        None => {
            let (units, decimals) = decimal(text, MOST_DECIMALS)?;
            Rate::per_second(units, decimals)
        }
        Some(slash) => {
            let (units, length) = (text.get(..slash)?, text.get(slash + 1..)?);
            let length = unit(length).or_else(|| duration(length, longest))?;
            Rate::per(integer(units)?, length)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: Millis = Millis(366 * Millis::DAY.0);

    #[test]
    fn integers() {
        for (text, value) in [("0", 0), ("7", 7), ("9007199254740991", MAX_INTEGER)] {
            assert_eq!(integer(text.as_bytes()), Some(value));
        }
        for text in [
            "",
            "-0",
            "-1",
            "+1",
            "01",
            "00",
            "1.0",
            " 1",
            "1 ",
            "0x1",
            "1e3",
            "9007199254740992",
            "9223372036854775808",
            "18446744073709551616",
            "99999999999999999999999999999999999999999",
            "nan",
            "inf",
            "١",
            "1\0",
        ] {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn durations() {
        for (text, millis) in [
            ("60", 60_000),
            ("0.25", 250),
            ("0.001", 1),
            ("1.0", 1000),
            ("1.000000000000", 1000),
            ("500ms", 500),
            ("1.000ms", 1),
            ("15m", 900_000),
            ("1.5h", 5_400_000),
            ("1d", 86_400_000),
            ("0.00000125d", 108),
            ("366d", YEAR.0),
            ("31622400", YEAR.0),
        ] {
            assert_eq!(
                duration(text.as_bytes(), YEAR),
                Some(Millis(millis)),
                "{text:?}"
            );
        }
        for text in [
            "",
            "0",
            "0ms",
            "0.0",
            "0.0001",
            "0.0005s",
            "1.5ms",
            "-1",
            "+1",
            "1e3",
            "1 s",
            "s",
            "ms",
            ".5",
            "5.",
            "1.2.3",
            "1S",
            "1M",
            "1w",
            "1y",
            "1sm",
            "1mss",
            "1msms",
            "366.001d",
            "367d",
            "31622401",
            "nan",
            "inf",
            "60s\0",
            "\u{ff}",
            "1/2",
            "1.0000000001",
        ] {
            assert_eq!(duration(text.as_bytes(), YEAR), None, "{text:?}");
        }
        assert_eq!(duration(b"32d", Millis(31 * Millis::DAY.0)), None);
    }

    #[test]
    fn rates() {
        for (text, units, micros) in [
            ("10", 10, 1_000_000),
            ("0.5", 5, 10_000_000),
            ("0.50", 5, 10_000_000),
            ("16.666667", 16_666_667, 1_000_000_000_000),
            ("0.000001", 1, 1_000_000_000_000),
            ("100/60", 100, 60_000_000),
            ("100/1m", 100, 60_000_000),
            ("100/m", 100, 60_000_000),
            ("5/s", 5, 1_000_000),
            ("5/ms", 5, 1000),
            ("1000/d", 1000, 86_400_000_000),
            ("9007199254740991", MAX_INTEGER.into(), 1_000_000),
            (
                "9007199254740991.000001",
                9_007_199_254_740_991_000_001,
                1_000_000_000_000,
            ),
        ] {
            assert_eq!(
                rate(text.as_bytes(), YEAR),
                Some(Rate { units, micros }),
                "{text:?}"
            );
        }
        for text in [
            "",
            "0",
            "0.0",
            "0/1",
            "1/0",
            "1/",
            "/s",
            "/",
            "1//s",
            "1/s/s",
            "0.0000001",
            "1.0000001",
            "-1",
            "1.5/s",
            "1/367d",
            "1/0.0001",
            "inf",
            "nan",
            "1e309",
            "9007199254740992",
            "10 /s",
            "5/S",
        ] {
            assert_eq!(rate(text.as_bytes(), YEAR), None, "{text:?}");
        }
    }
}

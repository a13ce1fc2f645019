//! Who is denied most often, in fixed memory.
//!
//! The space-saving algorithm (Metwally, Agrawal and El Abbadi, 2005) in sets of a few places each, so that a denial costs the same
//! whatever comes: a key belongs to one set by its hash. One that has no place there takes that of the least denied, with its
//! count, of which all but one is then the most by which the new count is too high. A key that makes up more than a fourth of what
//! is denied in its set has a place for certain. Counts halve every minute: what happened lately counts most.

use std::hash::{BuildHasher, RandomState};

use crate::limiter::Millis;

/// Sets of places; a key belongs to one.
const SETS: usize = 64;
/// Places in a set.
const WAYS: usize = 4;
/// Bytes of a key's name that are kept.
const NAME: usize = 256;
/// How long until every count is halved.
const HALF_LIFE: Millis = Millis(60_000);

/// A key, and how often it was denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, or the first 256 bytes of a longer one.
    pub key: Vec<u8>,
    /// The database that it is in.
    pub database: u32,
    /// At most how often, lately.
    pub count: u64,
    /// How much too high the count can be.
    pub error: u64,
}

/// Zero counts are free places.
#[derive(Clone, Copy)]
struct Place {
    hash: u64,
    count: u64,
    error: u64,
}

#[derive(Clone, Copy)]
struct Name {
    bytes: [u8; NAME],
    len: u16,
    database: u32,
}

/// The sketch.
pub struct Top {
    places: [[Place; WAYS]; SETS],
    names: [[Name; WAYS]; SETS],
    /// When counts were halved last.
    halved: Millis,
    /// Unknown to clients, who could choose keys that meet in one set. Zero until it is needed.
    seed: u64,
}

/// A hash of a key, by folded multiplication: spread well enough for a sketch, at a fraction of what the standard library's costs.
fn hash(seed: u64, key: &[u8], database: u32) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15; // 2^64 over the golden ratio
    let fold = |one: u64, other: u64| {
        let product = u128::from(one) * u128::from(other);
        product as u64 ^ (product >> 64) as u64
    };
    let mut state = seed ^ (key.len() as u64) << 32 ^ u64::from(database);
    for word in key.as_chunks::<8>().0 {
        state = fold(state ^ u64::from_le_bytes(*word), ODD);
    }
    // The rest, with some of what was before it where there is enough.
    let rest = key.last_chunk().copied().unwrap_or_else(|| {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        bytes
    });
    state = fold(state ^ u64::from_le_bytes(rest), ODD);
    // Folded once more, with what nobody knows: the low bits tell the set.
    fold(state ^ ODD, seed | 1)
}

impl Top {
    /// The most entries that there are.
    pub const MOST: usize = SETS * WAYS;

    /// Without any.
    pub const fn empty() -> Self {
        const FREE: Place = Place {
            hash: 0,
            count: 0,
            error: 0,
        };
        const NAMELESS: Name = Name {
            bytes: [0; NAME],
            len: 0,
            database: 0,
        };
        Self {
            places: [[FREE; WAYS]; SETS],
            names: [[NAMELESS; WAYS]; SETS],
            halved: Millis::ZERO,
            seed: 0,
        }
    }

    /// One more denial.
    pub fn add(&mut self, key: &[u8], database: u32, now: Millis) {
        self.age(now);
        if self.seed == 0 {
            self.seed = RandomState::new().hash_one(()) | 1;
        }
        let hash = hash(self.seed, key, database);
        let set = hash as usize % SETS;
        let (places, names) = (&mut self.places[set], &mut self.names[set]);
        if let Some(place) = places.iter_mut().find(|place| place.hash == hash)
            && place.count > 0
        {
            place.count += 1;
            return;
        }
        let mut least = 0;
        for way in 1..WAYS {
            if places[way].count < places[least].count {
                least = way;
            }
        }
        let least_count = places[least].count;
        places[least] = Place {
            hash,
            count: least_count + 1,
            error: least_count,
        };
        let name = &mut names[least];
        let len = key.len().min(NAME);
        name.bytes[..len].copy_from_slice(&key[..len]);
        name.len = len as u16;
        name.database = database;
    }

    /// Halves all counts once for every [`HALF_LIFE`] that has passed.
    fn age(&mut self, now: Millis) {
        let passed = (now - self.halved).0;
        if (0..HALF_LIFE.0).contains(&passed) {
            return;
        }
        if passed < 0 {
            // The clock was set back.
            self.halved = now;
            return;
        }
        let halves = passed / HALF_LIFE.0;
        self.halved = self.halved + Millis(halves * HALF_LIFE.0);
        let shift = halves.min(63) as u32;
        for place in self.places.as_flattened_mut() {
            // The count is rounded up and what is certain of it down, so that the truth stays between. What is below one is dropped.
            let certain = (place.count - place.error) >> shift;
            place.count = match place.count >> shift {
                0 => 0,
                _ => place.count.div_ceil(1 << shift),
            };
            place.error = place.count.saturating_sub(certain);
        }
    }

    /// The `most` keys denied most often, the most often first.
    pub fn list(&mut self, most: usize, now: Millis) -> Vec<Entry> {
        self.age(now);
        let places = self.places.as_flattened().iter();
        let all = places.zip(self.names.as_flattened());
        let taken = all.filter(|(place, _)| place.count > 0);
        let mut entries: Vec<Entry> = taken
            .map(|(place, name)| Entry {
                key: name.bytes[..usize::from(name.len).min(NAME)].to_vec(),
                database: name.database,
                count: place.count,
                error: place.error,
            })
            .collect();
        entries.sort_by(|one, other| {
            let by_count = other
                .count
                .cmp(&one.count)
                .then(one.error.cmp(&other.error));
            by_count.then_with(|| one.key.cmp(&other.key))
        });
        entries.truncate(most);
        entries
    }

    /// Forgets all. The next minute begins now.
    pub fn reset(&mut self, now: Millis) {
        self.halved = now;
        for place in self.places.as_flattened_mut() {
            place.count = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const NOW: Millis = Millis(1_700_000_000_000);

    fn counts(top: &mut Top, now: Millis) -> Vec<(String, u64, u64)> {
        let entries = top.list(Top::MOST, now).into_iter();
        let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
        entries
            .map(|entry| (text(entry.key), entry.count, entry.error))
            .collect()
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut top = Box::new(Top::empty());
        for key in ["a", "b", "a", "c", "a", "b"] {
            top.add(key.as_bytes(), 0, NOW);
        }
        let expected = [("a", 3, 0), ("b", 2, 0), ("c", 1, 0)];
        let expected = expected.map(|(key, count, error)| (key.to_owned(), count, error));
        assert_eq!(counts(&mut top, NOW), expected);
        assert_eq!(top.list(1, NOW).len(), 1);
        top.reset(NOW);
        assert_eq!(top.list(9, NOW), []);
    }

    #[test]
    fn the_same_name_in_two_databases_is_two_keys() {
        let mut top = Box::new(Top::empty());
        for database in [0, 3, 3] {
            top.add(b"a", database, NOW);
        }
        let databases = top.list(9, NOW).into_iter().map(|entry| entry.database);
        assert_eq!(databases.collect::<Vec<_>>(), [3, 0]);
    }

    #[test]
    fn counts_halve_every_minute() {
        let mut top = Box::new(Top::empty());
        top.reset(NOW);
        for _ in 0..9 {
            top.add(b"a", 0, NOW);
        }
        top.add(b"b", 0, NOW);
        let after = |minutes: i64| NOW + Millis(minutes * 60_000);
        assert_eq!(counts(&mut top, after(1) - Millis(1))[0].1, 9);
        // Rounded up, and by how much is told.
        assert_eq!(counts(&mut top, after(1)), [("a".to_owned(), 5, 1)]);
        // A clock that is set back changes nothing.
        assert_eq!(counts(&mut top, Millis(5)), [("a".to_owned(), 5, 1)]);
        let later = Millis(5 + 2 * 60_000);
        assert_eq!(counts(&mut top, later), [("a".to_owned(), 2, 1)]);
        assert_eq!(counts(&mut top, Millis::MAX), []);
    }

    #[test]
    fn a_long_name_is_cut_but_is_a_key_of_its_own() {
        let mut top = Box::new(Top::empty());
        let long = |last: u8| [vec![b'x'; 300], vec![last]].concat();
        for last in [1, 2, 2] {
            top.add(&long(last), 0, NOW);
        }
        let entries = top.list(9, NOW);
        assert_eq!(
            entries.iter().map(|entry| entry.count).collect::<Vec<_>>(),
            [2, 1]
        );
        assert!(entries.iter().all(|entry| entry.key == long(1)[..256]));
    }

    proptest! {
        #[test]
        fn counts_are_right_within_their_errors(
            keys in prop::collection::vec(0..2000_u32, 1..3000), heavy in 0..2000_u32,
            pause in prop::sample::select(&[0, 0, 40, 900, 30_000][..]),
        ) {
            let is_long = keys.len() >= 300 && pause == 0;
            let mut top = Box::new(Top::empty());
            top.reset(NOW);
            let mut model: HashMap<Vec<u8>, f64> = HashMap::new();
            let (mut now, mut minute) = (NOW, 0);
            for (i, key) in keys.into_iter().enumerate() {
                // Every third one is the same.
                let key = if i % 3 == 0 { heavy } else { key };
                let name = format!("key:{key}").into_bytes();
                now = now + Millis(pause);
                while NOW + Millis((minute + 1) * 60_000) <= now {
                    minute += 1;
                    model.values_mut().for_each(|count| *count /= 2.0);
                }
                top.add(&name, 0, now);
                *model.entry(name).or_default() += 1.0;
            }
            let entries = top.list(Top::MOST, now);
            for entry in &entries {
                let truth = model[&entry.key];
                // What was left below one was dropped.
                prop_assert!(truth < entry.count as f64 + 1.0);
                prop_assert!((entry.count - entry.error) as f64 <= truth);
            }
            prop_assert!(entries.is_sorted_by(|one, other| one.count >= other.count));
            // A third of many denials stands out.
            let heaviest = format!("key:{heavy}").into_bytes();
            prop_assert!(!is_long || entries[0].key == heaviest);
        }
    }
}

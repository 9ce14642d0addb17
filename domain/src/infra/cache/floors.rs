//! The newest version of each row that this node has told or heard of. Nothing older is told any more, whoever brings
//! it: a slow reader, a local copy, a Redis that missed a write.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Longer than any read is on its way, and than a local copy lives.
const LIFE: Duration = Duration::from_secs(60);
/// Parts with a lock each, so that cores rarely wait for one another.
const PARTS: usize = 16;
/// Rows remembered in a part; 131,072 in all, about 15 MB.
const PART_CAPACITY: usize = 8_192;

struct Floor {
    version: i64,
    until: Instant,
}

pub(super) struct Floors {
    hasher: RandomState,
    parts: [Mutex<HashMap<String, Floor>>; PARTS],
}

impl Default for Floors {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            parts: std::array::from_fn(|_| Mutex::new(HashMap::new())),
        }
    }
}

impl Floors {
    /// The version below which nothing is told; 0 when all is welcome.
    pub(super) fn get(&self, key: &str) -> i64 {
        let part = self.part(key).lock();
        part.get(key)
            .filter(|floor| Instant::now() < floor.until)
            .map_or(0, |floor| floor.version)
    }

    /// Forbids versions below this. Rows that never were have version 0 and cost nothing here. A lower version than before
    /// changes nothing, also not how long the floor stands: a row that somebody set back by hand is told after that.
    pub(super) fn raise(&self, key: &str, version: i64) {
        if version <= 0 {
            return;
        }
        let until = Instant::now() + LIFE;
        let mut part = self.part(key).lock();
        if let Some(floor) = part.get_mut(key) {
            if version >= floor.version {
                *floor = Floor { version, until };
            }
            return;
        }
        if part.len() >= PART_CAPACITY {
            make_room(&mut part);
        }
        part.insert(key.to_owned(), Floor { version, until });
    }

    fn part(&self, key: &str) -> &Mutex<HashMap<String, Floor>> {
        let hash = self.hasher.hash_one(key);
        &self.parts[usize::try_from(hash % PARTS as u64).unwrap_or_default()]
    }
}

/// Those that ended go first, else the older half: their reads have mostly arrived.
fn make_room(part: &mut HashMap<String, Floor>) {
    let now = Instant::now();
    part.retain(|_, floor| now < floor.until);
    if part.len() > PART_CAPACITY / 2 {
        let mut ends: Vec<Instant> = part.values().map(|f| f.until).collect();
        let middle = ends.len() / 2;
        let (_, median, _) = ends.select_nth_unstable(middle);
        let median = *median;
        part.retain(|_, floor| floor.until > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_version_does_not_prolong_a_floor() {
        let floors = Floors::default();
        let end = || floors.part("a").lock()["a"].until;
        floors.raise("a", 3);
        let first = end();
        floors.raise("a", 2);
        assert_eq!(end(), first);
        floors.raise("a", 3);
        assert!(end() > first);
    }

    #[test]
    fn a_floor_only_rises_and_the_table_has_a_bound() {
        let floors = Floors::default();
        floors.raise("a", 3);
        floors.raise("a", 2);
        floors.raise("b", 0);
        assert_eq!((floors.get("a"), floors.get("b")), (3, 0));
        for number in 0..PARTS * PART_CAPACITY + 40_000 {
            floors.raise(&format!("k{number}"), 1);
        }
        assert!(
            floors
                .parts
                .iter()
                .all(|part| part.lock().len() <= PART_CAPACITY)
        );
    }
}

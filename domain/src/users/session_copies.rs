//! A node's own copies of sessions, so that a busy user costs one trip to Redis in five seconds. Never the truth.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::session::{Session, TokenHash};

/// How long a logout on another node can go unnoticed when its broadcast is lost.
const COPY_LIFE: Duration = Duration::from_secs(5);
/// Parts with a lock each, so that cores rarely wait for one another.
const PARTS: usize = 16;
/// Copies in a part; 131,072 in all, about 20 MB.
const PART_CAPACITY: usize = 8_192;

struct Copy {
    session: Session,
    good_until: Instant,
}

/// The copies.
pub(super) struct SessionCopies {
    parts: [Mutex<HashMap<TokenHash, Copy>>; PARTS],
}

impl Default for SessionCopies {
    fn default() -> Self {
        Self {
            parts: std::array::from_fn(|_| Mutex::new(HashMap::new())),
        }
    }
}

impl SessionCopies {
    /// The copy, unless it is too old.
    pub(super) fn get(&self, hash: &TokenHash) -> Option<Session> {
        let part = self.part(hash).lock();
        part.get(hash)
            .filter(|copy| Instant::now() < copy.good_until)
            .map(|copy| copy.session.clone())
    }

    /// Keeps a copy of what was asked for at `asked_at`.
    pub(super) fn put(&self, session: Session, asked_at: Instant) {
        let hash = session.token_hash;
        let mut part = self.part(&hash).lock();
        if part.len() >= PART_CAPACITY {
            make_room(&mut part);
        }
        part.insert(
            hash,
            Copy {
                session,
                good_until: asked_at + COPY_LIFE,
            },
        );
    }

    pub(super) fn remove(&self, hash: &TokenHash) {
        self.part(hash).lock().remove(hash);
    }

    pub(super) fn clear(&self) {
        for part in &self.parts {
            part.lock().clear();
        }
    }

    fn part(&self, hash: &TokenHash) -> &Mutex<HashMap<TokenHash, Copy>> {
        &self.parts[hash.part(PARTS)]
    }
}

/// Old copies go first. Where most are young, all go: reading some again is cheaper than searching a full table at each
/// insert.
fn make_room(part: &mut HashMap<TokenHash, Copy>) {
    let now = Instant::now();
    part.retain(|_, copy| now < copy.good_until);
    if part.len() > PART_CAPACITY / 2 {
        part.clear();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::{Role, UserId};
    use super::{COPY_LIFE, PART_CAPACITY, PARTS, Session, SessionCopies, TokenHash};

    fn session(number: usize) -> Session {
        let token_hash = TokenHash::of(&format!("{number:043}")).unwrap();
        Session {
            user_id: UserId(7),
            role: Role::User,
            token_hash,
        }
    }

    #[test]
    fn a_copy_is_good_for_five_seconds_from_the_question() {
        let (copies, one) = (SessionCopies::default(), session(1));
        copies.put(one.clone(), Instant::now());
        assert_eq!(copies.get(&one.token_hash), Some(one.clone()));
        copies.put(one.clone(), Instant::now() - COPY_LIFE);
        assert_eq!(copies.get(&one.token_hash), None);
    }

    #[test]
    fn a_removed_copy_is_gone() {
        let (copies, one, other) = (SessionCopies::default(), session(1), session(2));
        copies.put(one.clone(), Instant::now());
        copies.put(other.clone(), Instant::now());
        copies.remove(&one.token_hash);
        assert_eq!(
            (copies.get(&one.token_hash), copies.get(&other.token_hash)),
            (None, Some(other.clone()))
        );
        copies.clear();
        assert_eq!(copies.get(&other.token_hash), None);
    }

    #[test]
    fn the_table_never_grows_past_its_bound() {
        let copies = SessionCopies::default();
        for number in 0..PARTS * PART_CAPACITY + 40_000 {
            copies.put(session(number), Instant::now());
        }
        assert!(
            copies
                .parts
                .iter()
                .all(|part| part.lock().len() <= PART_CAPACITY)
        );
    }
}

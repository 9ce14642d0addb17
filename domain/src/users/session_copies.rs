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
    parts: [Mutex<Part>; PARTS],
}

#[derive(Default)]
struct Part {
    copies: HashMap<TokenHash, Copy>,
    /// Grows whenever copies are taken away: what was asked for before may be over by now.
    removals: u64,
}

/// A question to Redis that is on its way.
pub(super) struct Asked {
    at: Instant,
    removals: u64,
}

impl Default for SessionCopies {
    fn default() -> Self {
        Self {
            parts: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

impl SessionCopies {
    /// The copy, unless it is too old.
    pub(super) fn get(&self, hash: &TokenHash) -> Option<Session> {
        let part = self.part(hash).lock();
        part.copies
            .get(hash)
            .filter(|copy| Instant::now() < copy.good_until)
            .map(|copy| copy.session.clone())
    }

    /// To be called before Redis is asked for a session.
    pub(super) fn asking(&self, hash: &TokenHash) -> Asked {
        Asked {
            at: Instant::now(),
            removals: self.part(hash).lock().removals,
        }
    }

    /// Keeps a copy of what Redis answered, unless copies were taken away meanwhile.
    pub(super) fn put(&self, session: Session, asked: &Asked) {
        let hash = session.token_hash;
        let mut part = self.part(&hash).lock();
        if part.removals != asked.removals {
            return;
        }
        if part.copies.len() >= PART_CAPACITY {
            make_room(&mut part.copies);
        }
        part.copies.insert(
            hash,
            Copy {
                session,
                good_until: asked.at + COPY_LIFE,
            },
        );
    }

    /// Takes away the copy of a session that is over, and the answers that are on their way.
    pub(super) fn remove(&self, hash: &TokenHash) {
        let mut part = self.part(hash).lock();
        part.removals += 1;
        part.copies.remove(hash);
    }

    /// Takes away the copy of what Redis does not have. Who invents tokens costs the others nothing here.
    pub(super) fn forget(&self, hash: &TokenHash) {
        self.part(hash).lock().copies.remove(hash);
    }

    /// Takes away all, and the answers that are on their way.
    pub(super) fn clear(&self) {
        for part in &self.parts {
            let mut part = part.lock();
            part.removals += 1;
            part.copies.clear();
        }
    }

    fn part(&self, hash: &TokenHash) -> &Mutex<Part> {
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
    use super::{Asked, COPY_LIFE, PART_CAPACITY, PARTS, Session, SessionCopies, TokenHash};

    fn put(copies: &SessionCopies, session: &Session) {
        let asked = copies.asking(&session.token_hash);
        copies.put(session.clone(), &asked);
    }

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
        put(&copies, &one);
        assert_eq!(copies.get(&one.token_hash), Some(one.clone()));
        let long_ago = Asked {
            at: Instant::now() - COPY_LIFE,
            removals: 0,
        };
        copies.put(one.clone(), &long_ago);
        assert_eq!(copies.get(&one.token_hash), None);
    }

    #[test]
    fn a_removed_copy_is_gone() {
        let (copies, one, other) = (SessionCopies::default(), session(1), session(2));
        put(&copies, &one);
        put(&copies, &other);
        copies.remove(&one.token_hash);
        assert_eq!(
            (copies.get(&one.token_hash), copies.get(&other.token_hash)),
            (None, Some(other.clone()))
        );
        copies.clear();
        assert_eq!(copies.get(&other.token_hash), None);
    }

    #[test]
    fn an_answer_that_a_logout_has_overtaken_is_not_kept() {
        let (copies, one) = (SessionCopies::default(), session(1));
        let asked = copies.asking(&one.token_hash);
        copies.remove(&one.token_hash);
        copies.put(one.clone(), &asked);
        assert_eq!(copies.get(&one.token_hash), None);
        let asked = copies.asking(&one.token_hash);
        copies.clear();
        copies.put(one.clone(), &asked);
        assert_eq!(copies.get(&one.token_hash), None);
    }

    #[test]
    fn the_table_never_grows_past_its_bound() {
        let copies = SessionCopies::default();
        for number in 0..PARTS * PART_CAPACITY + 40_000 {
            put(&copies, &session(number));
        }
        assert!(
            copies
                .parts
                .iter()
                .all(|part| part.lock().copies.len() <= PART_CAPACITY)
        );
    }
}

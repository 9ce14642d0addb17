//! One round of a worker over many things: the trouble of one does not keep the others from their turn. What is
//! done in a round, and when, is elsewhere.

use super::Error;
use crate::infra::fault::{Fault, Faulty};

/// A round, and what it came to so far.
pub(super) struct Round {
    what: &'static str,
    items: usize,
    done: usize,
    troubles: Vec<(i64, Error)>,
}

impl Round {
    /// Begins a round; `what` stands in the log.
    pub(super) fn of(what: &'static str) -> Self {
        Self {
            what,
            items: 0,
            done: 0,
            troubles: Vec::new(),
        }
    }

    /// Notes what came of one thing, by its id.
    ///
    /// # Errors
    /// When a store is away: the others would only wait for it one after the other.
    pub(super) fn note(&mut self, id: i64, result: Result<usize, Error>) -> Result<(), Error> {
        self.items += 1;
        match result {
            Ok(done) => self.done += done,
            Err(e) if e.fault() == Fault::Unavailable => return Err(e),
            Err(e) => self.troubles.push((id, e)),
        }
        Ok(())
    }

    /// How much was done.
    ///
    /// # Errors
    /// The first one, when nothing went right: that is trouble of the worker and not of one thing.
    pub(super) fn end(mut self) -> Result<usize, Error> {
        if self.troubles.len() == self.items && !self.troubles.is_empty() {
            return Err(self.troubles.swap_remove(0).1);
        }
        for (id, error) in self.troubles {
            tracing::warn!(id, %error, what = self.what, "one of many cannot be worked on; the others went on");
        }
        Ok(self.done)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::vouchers::VoucherId;

    #[test]
    fn the_trouble_of_one_does_not_end_the_round_and_a_store_that_is_away_does() {
        let mut round = Round::of("test");
        round.note(1, Ok(2)).unwrap();
        round.note(2, Err(Error::NoSuchSale(VoucherId(2)))).unwrap();
        round.note(3, Ok(1)).unwrap();
        assert_eq!(round.end().unwrap(), 3);

        let mut round = Round::of("test");
        round.note(2, Err(Error::NoSuchSale(VoucherId(2)))).unwrap();
        assert!(round.end().is_err(), "nothing went right");

        let away = io::Error::new(io::ErrorKind::ConnectionReset, "away");
        let away = Error::Redis(deadpool_redis::redis::RedisError::from(away));
        assert!(Round::of("test").note(1, Err(away)).is_err());
        assert_eq!(Round::of("test").end().unwrap(), 0, "an empty round");
    }
}

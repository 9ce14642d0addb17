//! The operations of one socket: which are wanted under which id, and how many run.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Operations of a socket that are wanted; a page needs a handful.
const WANTED_MOST: usize = 20;
/// With those that nobody wants any more and that are not let go yet: a page that is left for another changes them all.
const RUNNING_MOST: usize = 2 * WANTED_MOST;

/// An operation of a socket. A client may give an id again once it is free: the number tells the two apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) id: String,
    number: u64,
}

/// An operation that may run.
pub(super) struct Begun {
    pub(super) ticket: Ticket,
    /// Cancelled: the client, or the socket, no longer wants it.
    pub(super) stop: CancellationToken,
    /// Its place among those that run, for as long as this is kept.
    _place: OwnedSemaphorePermit,
}

/// Stops all of them when it goes.
pub(super) struct Operations {
    wanted: HashMap<String, (u64, CancellationToken)>,
    begun: u64,
    places: Arc<Semaphore>,
}

impl Operations {
    pub(super) fn new() -> Self {
        Self {
            wanted: HashMap::new(),
            begun: 0,
            places: Arc::new(Semaphore::new(RUNNING_MOST)),
        }
    }

    /// Whether an id is taken.
    pub(super) fn has(&self, id: &str) -> bool {
        self.wanted.contains_key(id)
    }

    /// Begins one under an id that is free; `None` when there are too many.
    pub(super) fn begin(&mut self, id: String) -> Option<Begun> {
        if self.wanted.len() >= WANTED_MOST {
            return None;
        }
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        self.begun += 1;
        let (number, stop) = (self.begun, CancellationToken::new());
        self.wanted.insert(id.clone(), (number, stop.clone()));
        Some(Begun {
            ticket: Ticket { id, number },
            stop,
            _place: place,
        })
    }

    /// The client no longer wants it; its id is free.
    pub(super) fn stop(&mut self, id: &str) {
        if let Some((_, stop)) = self.wanted.remove(id) {
            stop.cancel();
        }
    }

    /// Whether what it says is for the client: not when its id is free, or another operation's by now.
    pub(super) fn is_wanted(&self, ticket: &Ticket) -> bool {
        let current = self.wanted.get(&ticket.id);
        current.is_some_and(|(number, _)| *number == ticket.number)
    }

    /// It has said its last word.
    pub(super) fn end(&mut self, ticket: &Ticket) {
        if self.is_wanted(ticket) {
            self.wanted.remove(&ticket.id);
        }
    }
}

impl Drop for Operations {
    fn drop(&mut self) {
        self.wanted.values().for_each(|(_, stop)| stop.cancel());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operation_says_late_is_not_said_by_the_next_one_under_its_id() {
        let mut operations = Operations::new();
        let first = operations.begin("1".to_owned()).unwrap();
        operations.stop("1");
        assert!(first.stop.is_cancelled());
        let second = operations.begin("1".to_owned()).unwrap();
        assert!(!operations.is_wanted(&first.ticket));
        operations.end(&first.ticket);
        assert!(operations.has("1") && operations.is_wanted(&second.ticket));
        drop(operations);
        assert!(second.stop.is_cancelled());
    }

    #[test]
    fn those_that_nobody_wants_count_until_they_have_ended() {
        let mut operations = Operations::new();
        let mut running = Vec::new();
        let id = |n: usize| format!("{n}");
        for n in 0..WANTED_MOST {
            running.push(operations.begin(id(n)).unwrap());
        }
        assert!(operations.begin("x".to_owned()).is_none());
        for n in 0..WANTED_MOST {
            operations.stop(&id(n));
            running.push(operations.begin(id(n)).unwrap());
        }
        operations.stop(&id(0));
        assert!(operations.begin("x".to_owned()).is_none());
        running.pop();
        assert!(operations.begin("x".to_owned()).is_some());
    }
}

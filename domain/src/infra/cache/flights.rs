//! Single flight: whoever wants what is already being read waits for that read, and not for a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use sea_orm::DbErr;

use super::kinds::Found;
use super::tiered::{Reach, Work};
use super::{Cache, Error};

/// A read on its way.
pub(super) struct Flight {
    number: u64,
    answer: Shared<BoxFuture<'static, Result<Found, Error>>>,
    /// Whether the database has been asked: what is written from then on may be missing in the answer.
    has_asked: Arc<AtomicBool>,
}

/// Takes a flight from the list when it ends, however it ends.
struct Landing {
    cache: Cache,
    key: (String, Reach),
    number: u64,
}

impl Drop for Landing {
    fn drop(&mut self) {
        let mut flights = self.cache.inner.flights.lock();
        if flights
            .get(&self.key)
            .is_some_and(|f| f.number == self.number)
        {
            flights.remove(&self.key);
        }
    }
}

impl Cache {
    /// Waits for the read that is on its way, or sets out.
    pub(super) async fn join_flight(&self, work: &Work, reach: Reach) -> Result<Found, Error> {
        let key = (work.place.key.clone(), reach);
        let answer = {
            let mut flights = self.inner.flights.lock();
            match flights.get(&key) {
                Some(flight) => flight.answer.clone(),
                None => {
                    let number = self.inner.next_flight.fetch_add(1, Ordering::Relaxed);
                    let has_asked = Arc::new(AtomicBool::new(false));
                    let work = work.telling(&has_asked);
                    let answer = self.set_out(work, reach, number);
                    let flight = Flight {
                        number,
                        answer: answer.clone(),
                        has_asked,
                    };
                    flights.insert(key, flight);
                    answer
                }
            }
        };
        answer.await
    }

    /// Reads in a task of its own: a reader who goes away does not take the others' answer with him.
    fn set_out(
        &self,
        work: Work,
        reach: Reach,
        number: u64,
    ) -> Shared<BoxFuture<'static, Result<Found, Error>>> {
        let cache = self.clone();
        let task = tokio::spawn(async move {
            let _landing = Landing {
                cache: cache.clone(),
                key: (work.place.key.clone(), reach),
                number,
            };
            cache.fetch(&work, reach).await
        });
        let answer = async move {
            match task.await {
                Ok(answer) => answer,
                Err(e) => {
                    let ended = DbErr::Custom(format!("a cache task ended early: {e}"));
                    Err(Error::Database(Arc::new(ended)))
                }
            }
        };
        answer.boxed().shared()
    }

    /// Those who come from now on set out anew, or join a flight that has not asked the database yet: so a row that is
    /// written without pause has one read under way on this node, and one that waits for its turn. Those who wait learn by
    /// the floor that they must.
    pub(super) fn detach_flights(&self, key: &str) {
        let mut flights = self.inner.flights.lock();
        for reach in [Reach::Any, Reach::Database] {
            let place = (key.to_owned(), reach);
            let is_too_early = |flight: &Flight| flight.has_asked.load(Ordering::SeqCst);
            if flights.get(&place).is_some_and(is_too_early) {
                flights.remove(&place);
            }
        }
    }
}

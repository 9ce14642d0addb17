//! How many different people looked at a shop, used the site, or used it signed in: a day, a week, a month. Counts, not
//! people: what is kept of a visitor cannot be turned back. Not for anything that must be exact.
//!
//! Each count of a day is a HyperLogLog, right within about 1 %. A week and a month are the union of their days, never
//! the sum: who comes every day is one visitor. Visits are gathered in the process and sent once a second, so that no
//! request waits for them; a process that dies takes a second of them along, and a Redis that is lost, the counts.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use chrono::{Days, NaiveDate};
use deadpool_redis::redis::{RedisError, pipe};
use hmac::{Hmac, Mac};
use parking_lot::Mutex;
use sha2::Sha256;
use tokio_util::sync::CancellationToken;

use crate::infra::Infra;
use crate::infra::address::block_of;
use crate::infra::fault::{Fault, Faulty, redis_fault};
use crate::infra::zones::Zone;
use crate::settings::{Secret, Settings};

/// Visits reach Redis this late.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// Visits that may wait in a process, 40 bytes or so each; what is more is not counted.
const WAITING_MAX: usize = 100_000;
/// Members of one command, and commands of one trip: a few hundred kilobytes at most.
const MEMBERS_A_COMMAND: usize = 1_000;
const COMMANDS_A_TRIP: usize = 200;
/// Counts read in one trip, each a union of up to thirty days.
const COUNTS_A_TRIP: usize = 50;
/// Bytes of a visitor's mark: no two of a thousand million are the same.
const MARK_BYTES: usize = 12;
/// How long a shop's days are kept: a month and what a reader in another zone may still call it.
pub const SHOP_DAYS: u64 = 40;
/// How long the days of all are kept: statistics are made again from them.
pub const SITE_DAYS: u64 = 100;
const DAY_SECS: u64 = 24 * 3_600;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Who looked at this shop.
    Shop(i64),
    /// Who used the site, signed in or not.
    Site,
    /// Who used the site signed in.
    Accounts,
}

/// How many days are counted together; the last of them gives the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Period {
    /// One.
    #[default]
    Day,
    /// Seven.
    Week,
    /// Thirty.
    Month,
}

impl Period {
    /// How many days.
    pub fn days(self) -> u64 {
        match self {
            Self::Day => 1,
            Self::Week => 7,
            Self::Month => 30,
        }
    }
}

/// A count to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Count {
    /// Of whom.
    pub subject: Subject,
    /// The last day.
    pub day: NaiveDate,
    /// How many days up to it.
    pub period: Period,
}

/// Who visits: a mark that is the same for the same one and tells nobody who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Visitor([u8; MARK_BYTES]);

/// Why a count was not read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Redis' own.
    #[error("redis: {0}")]
    Redis(#[from] RedisError),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::Redis(e) => redis_fault(e),
        }
    }
}

/// Visits that wait to be sent.
#[derive(Debug, Default)]
struct Waiting {
    visitors: HashMap<(Subject, NaiveDate), HashSet<Visitor>>,
    count: usize,
}

impl Waiting {
    /// `false`: there is no room.
    fn add(&mut self, of: (Subject, NaiveDate), visitor: Visitor) -> bool {
        if self.count >= WAITING_MAX {
            return false;
        }
        if self.visitors.entry(of).or_default().insert(visitor) {
            self.count += 1;
        }
        true
    }
}

/// The counts of visitors. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Visits {
    infra: Infra,
    secret: Secret,
    zone: Zone,
    waiting: Arc<Mutex<Waiting>>,
}

impl Visits {
    /// Makes the concept.
    pub fn new(infra: Infra, settings: &Settings) -> Self {
        metrics::describe_counter!(
            "lifemate_visits_dropped_total",
            "Visits that were not counted because too many were waiting."
        );
        Self {
            infra,
            secret: settings.sale.id_secret.clone(),
            zone: settings.time_zone,
            waiting: Arc::default(),
        }
    }

    /// The mark of whoever is known best: the user, else the device, else the address.
    pub fn visitor(&self, user: Option<i64>, device: Option<&str>, ip: IpAddr) -> Visitor {
        let (kind, who) = match (user, device) {
            (Some(user), _) => ("user", user.to_string()),
            (None, Some(device)) => ("device", device.to_owned()),
            (None, None) => ("address", block_of(ip)),
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.expose().as_bytes())
            .expect("invariant: HMAC takes keys of any length");
        for part in ["visitor", kind, &who] {
            mac.update(part.as_bytes());
            mac.update(&[0]);
        }
        let mut mark = [0; MARK_BYTES];
        mark.copy_from_slice(&mac.finalize().into_bytes()[..MARK_BYTES]);
        Visitor(mark)
    }

    /// Counts a visit of today, in memory: never waits, never fails. Only shops that exist may be given, since each has
    /// a key a day.
    pub fn record(&self, subject: Subject, visitor: Visitor) {
        if !self.waiting.lock().add((subject, self.today()), visitor) {
            metrics::counter!("lifemate_visits_dropped_total").increment(1);
        }
    }

    /// The day that visits count for now.
    pub fn today(&self) -> NaiveDate {
        self.zone.day(self.infra.clock.now_ms())
    }

    /// Sends what waits. What cannot be sent waits on.
    ///
    /// # Errors
    /// Redis' own.
    pub async fn flush(&self) -> Result<(), Error> {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let batches: Vec<_> = waiting
            .visitors
            .into_iter()
            .flat_map(|(of, visitors)| {
                let visitors: Vec<Visitor> = visitors.into_iter().collect();
                let parts: Vec<_> = visitors
                    .chunks(MEMBERS_A_COMMAND)
                    .map(|part| (of, part.to_vec()))
                    .collect();
                parts
            })
            .collect();
        let mut trips = batches.chunks(COMMANDS_A_TRIP);
        while let Some(trip) = trips.next() {
            if let Err(e) = self.send(trip).await {
                self.keep(trip.iter().chain(trips.flatten()));
                return Err(e.into());
            }
        }
        Ok(())
    }

    /// Sends visits every second until `stop`, and once more then.
    pub async fn run(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(SEND_EVERY) => {}
            }
            if let Err(e) = self.flush().await {
                tracing::debug!(error = %e, "visits were not sent; they wait");
            }
            if stop.is_cancelled() {
                return;
            }
        }
    }

    /// How many different visitors there were, for each count, in their order. 0 for days that are no longer kept.
    ///
    /// One trip for fifty counts.
    ///
    /// # Errors
    /// Redis' own.
    pub async fn unique(&self, counts: &[Count]) -> Result<Vec<u64>, Error> {
        let mut found = Vec::with_capacity(counts.len());
        for trip in counts.chunks(COUNTS_A_TRIP) {
            let mut questions = pipe();
            for count in trip {
                let days = (0..count.period.days())
                    .filter_map(|back| count.day.checked_sub_days(Days::new(back)));
                let keys: Vec<String> = days.map(|day| self.key(count.subject, day)).collect();
                questions.cmd("PFCOUNT").arg(keys);
            }
            let answers: Vec<u64> = self.infra.redis.query_pipe(&questions).await?;
            found.extend(answers);
        }
        Ok(found)
    }

    async fn send(
        &self,
        batches: &[((Subject, NaiveDate), Vec<Visitor>)],
    ) -> Result<(), RedisError> {
        let mut commands = pipe();
        for ((subject, day), visitors) in batches {
            let (key, kept_days) = (self.key(*subject, *day), kept_days(*subject));
            let add = commands.cmd("PFADD").arg(&key);
            for visitor in visitors {
                add.arg(&visitor.0[..]);
            }
            add.ignore();
            commands
                .cmd("EXPIRE")
                .arg(&key)
                .arg(kept_days * DAY_SECS)
                .ignore();
        }
        self.infra.redis.query_pipe(&commands).await
    }

    fn keep<'a>(&self, unsent: impl Iterator<Item = &'a ((Subject, NaiveDate), Vec<Visitor>)>) {
        let mut waiting = self.waiting.lock();
        for (of, visitors) in unsent {
            for visitor in visitors {
                waiting.add(*of, *visitor);
            }
        }
    }

    /// HyperLogLog: marks of the visitors of a day; lives `SHOP_DAYS` or `SITE_DAYS` after the last visit.
    fn key(&self, subject: Subject, day: NaiveDate) -> String {
        let day = day.format("%Y%m%d");
        let redis = &self.infra.redis;
        match subject {
            Subject::Shop(id) => redis.key(format_args!("visits:shop:{id}:{day}")),
            Subject::Site => redis.key(format_args!("visits:site:{day}")),
            Subject::Accounts => redis.key(format_args!("visits:accounts:{day}")),
        }
    }
}

fn kept_days(subject: Subject) -> u64 {
    match subject {
        Subject::Shop(_) => SHOP_DAYS,
        Subject::Site | Subject::Accounts => SITE_DAYS,
    }
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDate;

    use super::{Subject, Visitor, WAITING_MAX, Waiting};

    #[test]
    fn a_visitor_waits_once_and_no_more_wait_than_there_is_room_for() {
        let mut waiting = Waiting::default();
        let of = (Subject::Site, NaiveDate::MIN);
        let visitor = |number: u64| {
            let mut mark = [0; 12];
            mark[..8].copy_from_slice(&number.to_le_bytes());
            Visitor(mark)
        };
        for _ in 0..3 {
            assert!(waiting.add(of, visitor(0)));
        }
        assert_eq!(waiting.count, 1);
        for number in 1..WAITING_MAX as u64 {
            assert!(waiting.add(of, visitor(number)));
        }
        assert!(!waiting.add(of, visitor(u64::MAX)));
        assert_eq!(waiting.visitors[&of].len(), WAITING_MAX);
    }
}

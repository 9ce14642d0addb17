//! Exact limits over all nodes: how often somebody may do something. The sale's own click limit is in `orders::gate`,
//! per node and on purpose not exact.

use std::net::IpAddr;
use std::time::Duration;

use deadpool_redis::redis::{RedisError, cmd};
use uuid::Uuid;

use crate::infra::address::block_of;
use crate::infra::fault::{Fault, Faulty, redis_fault};
use crate::infra::redis::Redis;

/// Who is counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Everybody.
    Global,
    /// A user; who is signed out counts by address.
    User,
    /// An address; in IPv6 its /64 block.
    Ip,
    /// A device by its fingerprint; who sends none counts by address.
    Device,
}

/// What happens while Redis cannot count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTrouble {
    /// The call goes through: the limit protects comfort.
    Open,
    /// The call is refused: the limit protects something dear.
    Closed,
}

/// How calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// At most so many calls in any window of this length.
    Window {
        /// Calls, 1 or more.
        calls: u32,
        /// Length, 1 ms or more.
        window: Duration,
    },
    /// A burst of the capacity, and the rate in the long run.
    Bucket {
        /// Calls at once, 1 or more.
        capacity: u32,
        /// Calls a second, 1 or more.
        per_second: u32,
    },
}

/// One limit, declared beside what it limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Prefix of its keys and label of its metric; lower case, no two rules share one.
    pub name: &'static str,
    /// How calls are counted.
    pub shape: Shape,
    /// Who is counted together.
    pub dimension: Dimension,
    /// What happens while Redis cannot count.
    pub on_trouble: OnTrouble,
    /// What a refused caller reads.
    pub message: &'static str,
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The user's number, `None` when signed out.
    pub user: Option<i64>,
    /// The address.
    pub ip: IpAddr,
    /// The device's fingerprint, `None` when it sends none.
    pub device: Option<String>,
}

/// Why a call may not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The limit is reached.
    #[error("{message}")]
    Reached {
        /// The rule's words.
        message: &'static str,
        /// When a call will count again.
        retry_after: Duration,
    },
    /// Redis cannot count, and the rule is closed then.
    #[error("the limit cannot be checked: {0}")]
    Uncounted(#[from] RedisError),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::Reached { retry_after, .. } => Fault::RateLimited {
                retry_after: *retry_after,
            },
            Self::Uncounted(e) => redis_fault(e),
        }
    }
}

/// A call that was counted; see `RateLimits::undo`.
#[derive(Debug)]
pub struct Counted {
    key: String,
    member: String,
}

/// Counts calls. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RateLimits {
    redis: Redis,
    on: bool,
}

impl RateLimits {
    /// Makes the concept; `on`: `false` lets every call through.
    pub fn new(redis: Redis, on: bool) -> Self {
        metrics::describe_counter!(
            "lifemate_rate_limits_total",
            "Calls under a limit, by rule and outcome"
        );
        Self { redis, on }
    }

    /// Counts a call, if its limit is not reached. One Redis round trip.
    ///
    /// # Errors
    /// `Reached`; `Uncounted` for a rule that is closed in trouble.
    pub async fn check(&self, rule: &Rule, caller: &Caller) -> Result<(), Error> {
        self.check_undoable(rule, caller).await.map(|_| ())
    }

    /// Counts a call as `check` does, until it is undone: for a limit on calls that go wrong, which shows only
    /// afterwards. The rule counts in a window.
    ///
    /// # Errors
    /// As `check`.
    pub async fn check_undoable(&self, rule: &Rule, caller: &Caller) -> Result<Counted, Error> {
        let counted = Counted {
            key: self.key(rule, caller),
            member: Uuid::new_v4().simple().to_string(),
        };
        if !self.on {
            return Ok(counted);
        }
        match self.count(rule, &counted).await {
            Ok(0) => {
                note(rule, "passed");
                Ok(counted)
            }
            Ok(retry_after_ms) => {
                note(rule, "refused");
                Err(Error::Reached {
                    message: rule.message,
                    retry_after: Duration::from_millis(retry_after_ms),
                })
            }
            Err(e) if rule.on_trouble == OnTrouble::Open => {
                tracing::debug!(error = %e, rule = rule.name, "a limit was not checked");
                note(rule, "failed_open");
                Ok(counted)
            }
            Err(e) => {
                note(rule, "failed_closed");
                Err(e.into())
            }
        }
    }

    /// Lets a call that was counted not count. When Redis is away it counts on; that errs on the safe side.
    pub async fn undo(&self, counted: Counted) {
        if !self.on {
            return;
        }
        let mut remove = cmd("ZREM");
        remove.arg(&counted.key).arg(&counted.member);
        if let Err(e) = self.redis.query::<i64>(&remove).await {
            tracing::debug!(error = %e, "a call counts on");
        }
    }

    fn key(&self, rule: &Rule, caller: &Caller) -> String {
        let subject = subject(rule.dimension, caller);
        self.redis.key(format!("limit:{}:{subject}", rule.name))
    }

    /// Answers 0 when the call counts, else the milliseconds after which one will.
    async fn count(&self, rule: &Rule, counted: &Counted) -> Result<u64, RedisError> {
        let keys = [counted.key.clone()];
        let scripts = self.redis.scripts();
        match rule.shape {
            Shape::Window { calls, window } => {
                let args = [
                    window.as_millis().to_string(),
                    calls.to_string(),
                    counted.member.clone(),
                ];
                self.redis.run(&scripts.limit_window, &keys, &args).await
            }
            Shape::Bucket {
                capacity,
                per_second,
            } => {
                let args = [capacity.to_string(), per_second.to_string(), "1".to_owned()];
                self.redis.run(&scripts.limit_bucket, &keys, &args).await
            }
        }
    }
}

fn note(rule: &Rule, outcome: &'static str) {
    metrics::counter!("lifemate_rate_limits_total", "rule" => rule.name, "outcome" => outcome)
        .increment(1);
}

/// Whom a call is counted for.
fn subject(dimension: Dimension, caller: &Caller) -> String {
    let address = || format!("ip:{}", block_of(caller.ip));
    match dimension {
        Dimension::Global => "all".to_owned(),
        Dimension::User => caller
            .user
            .map_or_else(address, |user| format!("user:{user}")),
        Dimension::Ip => address(),
        Dimension::Device => caller
            .device
            .as_ref()
            .map_or_else(address, |device| format!("device:{device}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_signed_out_or_sends_no_device_counts_by_address() {
        let caller = |user, ip: &str, device: Option<&str>| Caller {
            user,
            ip: ip.parse().unwrap(),
            device: device.map(str::to_owned),
        };
        assert_eq!(
            subject(Dimension::User, &caller(Some(7), "1.2.3.4", None)),
            "user:7"
        );
        assert_eq!(
            subject(Dimension::User, &caller(None, "1.2.3.4", None)),
            "ip:1.2.3.4"
        );
        assert_eq!(
            subject(Dimension::Device, &caller(Some(7), "1.2.3.4", Some("d"))),
            "device:d"
        );
        assert_eq!(
            subject(Dimension::Device, &caller(Some(7), "1.2.3.4", None)),
            "ip:1.2.3.4"
        );
        let (one, other) = (
            caller(None, "2001:db8::1", None),
            caller(None, "2001:db8::ffff:1", None),
        );
        assert_eq!(
            subject(Dimension::Ip, &one),
            subject(Dimension::Ip, &other),
            "one /64 is one household"
        );
    }
}

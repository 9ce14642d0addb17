//! Locks over one Redis, or over a majority of several. A lock is for saving work; it is no fence: what its holder
//! writes must be harmless when it comes late. Commit before you release.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_redis::redis::RedisError;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::events::PushEvent;
use super::redis::Redis;

/// The channel that tells of released locks.
const CHANNEL: &str = "locks";
/// The lease is renewed this many times before it would run out.
const RENEWALS_PER_LEASE: u32 = 3;
/// Of several Redis, those that disagree are asked again after about this long, so that two who ask at once part ways.
const RETRY: Duration = Duration::from_millis(20);

/// Who holds locks: one task, or what works for it. Owners never share a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner(String);

impl Default for Owner {
    fn default() -> Self {
        Self(Uuid::new_v4().simple().to_string())
    }
}

/// Takes locks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Locks {
    nodes: Arc<[Redis]>,
}

/// A lock that is held; its lease is renewed until it is released or dropped.
#[derive(Debug)]
pub struct Lock {
    locks: Locks,
    name: String,
    owner: Owner,
    lost: CancellationToken,
    _renewing: DropGuard,
}

impl Locks {
    /// Locks over independent Redis, one or more: a lock is held when most of them say so.
    pub fn new(nodes: Vec<Redis>) -> Self {
        Self {
            nodes: nodes.into(),
        }
    }

    /// Takes a lock, waiting at most `wait` for whoever has it; `None` when it was not to be had. An owner may take a
    /// lock that he has once more, and must release it as often.
    ///
    /// The waiter is told when the lock is released; should that be lost, he asks again when the holder's lease runs out.
    ///
    /// # Errors
    /// When too few Redis answer to ever hold it.
    pub async fn acquire(
        &self,
        name: &str,
        owner: &Owner,
        lease: Duration,
        wait: Duration,
    ) -> Result<Option<Lock>, RedisError> {
        let deadline = Instant::now() + wait;
        // Subscribed before the first question, so that no release falls in between.
        let mut released = self.nodes[0].subscribe(CHANNEL);
        loop {
            let busy_for = match self.take(name, owner, lease).await? {
                None => return Ok(Some(self.hold(name, owner, lease))),
                Some(busy_for) => busy_for,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let told = async {
                loop {
                    match released.recv().await {
                        Ok(PushEvent::Message(what)) if *what != *name => {}
                        _ => return,
                    }
                }
            };
            tokio::select! {
                () = told => {}
                () = tokio::time::sleep(busy_for.min(left)) => {}
            }
        }
    }

    /// Asks every Redis; `None` when most gave the lock, else how long to wait for the next try.
    async fn take(
        &self,
        name: &str,
        owner: &Owner,
        lease: Duration,
    ) -> Result<Option<Duration>, RedisError> {
        let began = Instant::now();
        let (mut given, mut busy_for, mut trouble, mut failed) = (Vec::new(), None, None, 0);
        for node in self.nodes.iter() {
            let args = [owner.0.clone(), lease.as_millis().to_string()];
            match node
                .run::<u64>(&node.scripts().lock_take, &keys(node, name), &args)
                .await
            {
                Ok(0) => given.push(node),
                Ok(ms) => busy_for = busy_for.max(Some(Duration::from_millis(ms))),
                Err(e) => {
                    trouble = Some(e);
                    failed += 1;
                }
            }
        }
        // What asking took is gone from the lease.
        if given.len() > self.nodes.len() / 2 && began.elapsed() < lease / 2 {
            return Ok(None);
        }
        for node in &given {
            let _ = release_on(node, name, owner).await;
        }
        if let Some(e) = trouble
            && failed * 2 >= self.nodes.len()
        {
            return Err(e);
        }
        if let (1, Some(busy_for)) = (self.nodes.len(), busy_for) {
            return Ok(Some(busy_for));
        }
        let jitter = Duration::from_micros(u64::from(rand::random::<u16>() / 4));
        Ok(Some(RETRY + jitter))
    }

    fn hold(&self, name: &str, owner: &Owner, lease: Duration) -> Lock {
        let (ended, lost) = (CancellationToken::new(), CancellationToken::new());
        let (locks, name_of, owner_of) = (self.clone(), name.to_owned(), owner.clone());
        let (stop, gone) = (ended.clone(), lost.clone());
        tokio::spawn(async move {
            let mut renewed_at = Instant::now();
            while stop
                .run_until_cancelled(tokio::time::sleep(lease / RENEWALS_PER_LEASE))
                .await
                .is_some()
            {
                if locks.renew(&name_of, &owner_of, lease).await {
                    renewed_at = Instant::now();
                } else if renewed_at.elapsed() >= lease {
                    gone.cancel();
                    return;
                }
            }
        });
        Lock {
            locks: self.clone(),
            name: name.to_owned(),
            owner: owner.clone(),
            lost,
            _renewing: ended.drop_guard(),
        }
    }

    async fn renew(&self, name: &str, owner: &Owner, lease: Duration) -> bool {
        let mut renewed = 0;
        for node in self.nodes.iter() {
            let args = [owner.0.clone(), lease.as_millis().to_string()];
            if matches!(
                node.run::<u64>(&node.scripts().lock_renew, &keys(node, name), &args)
                    .await,
                Ok(1)
            ) {
                renewed += 1;
            }
        }
        renewed > self.nodes.len() / 2
    }
}

impl Lock {
    /// Gives the lock back; `false` when it was not held any more.
    ///
    /// # Errors
    /// When no Redis answers; the lease then runs out by itself.
    pub async fn release(self) -> Result<bool, RedisError> {
        let (mut released, mut trouble) = (0, None);
        for node in self.locks.nodes.iter() {
            match release_on(node, &self.name, &self.owner).await {
                Ok(true) => released += 1,
                Ok(false) => {}
                Err(e) => trouble = Some(e),
            }
        }
        match trouble {
            Some(e) if released == 0 => Err(e),
            _ => Ok(released > self.locks.nodes.len() / 2),
        }
    }

    /// Whether the lease ran out in spite of the renewals: somebody else may hold the lock now.
    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }
}

async fn release_on(node: &Redis, name: &str, owner: &Owner) -> Result<bool, RedisError> {
    let args = [
        owner.0.clone(),
        node.key(format!("events:{CHANNEL}")),
        name.to_owned(),
    ];
    Ok(node
        .run::<u64>(&node.scripts().lock_release, &keys(node, name), &args)
        .await?
        == 1)
}

/// Hash: the lock; lives for its lease.
fn keys(node: &Redis, name: &str) -> [String; 1] {
    [node.key(format!("lock:{name}"))]
}

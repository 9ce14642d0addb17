//! Bells: how those who follow a numbered list hear, on any node, that it has grown. What it holds they read
//! themselves, so an event that is lost, late or doubled costs at most 2 s, and never an entry.
//!
//! A list is a number of its concept's choice, such as a user's. Its entries must be numbered upwards in the order in
//! which they are committed: then whoever has read up to a number has missed none below it.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use parking_lot::Mutex;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::events::PushEvent;
use super::redis::Redis;

/// How often the lists that are followed are looked at: the longest that a lost event is missed.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Lists in one question.
const LISTS_PER_LOOK: usize = 500;
/// After a reading that failed.
const READ_AGAIN: Duration = Duration::from_secs(1);

struct Inner {
    redis: Redis,
    channel: &'static str,
    /// The last number that was told of each list that is followed here.
    lists: Mutex<HashMap<i64, watch::Sender<i64>>>,
}

/// The bells of one kind of list. Cheap to clone.
#[derive(Clone)]
pub struct Bells {
    inner: Arc<Inner>,
}

/// One follower's bell; it also rings when nothing is new.
pub struct Bell {
    told: watch::Receiver<i64>,
}

impl Bells {
    /// Bells that ring between nodes over a channel of their own.
    pub fn new(redis: Redis, channel: &'static str) -> Self {
        let inner = Inner {
            redis,
            channel,
            lists: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// A bell for a list; what is rung from now on is heard. Read the list's end after this.
    pub fn watch(&self, list: i64) -> Bell {
        let mut lists = self.inner.lists.lock();
        let told = lists.entry(list).or_insert_with(|| watch::Sender::new(0));
        Bell {
            told: told.subscribe(),
        }
    }

    /// Tells that lists have grown up to a number: on this node at once, on the others through Redis. To be called
    /// after the commit. What Redis does not take is heard within 2 s.
    pub async fn ring(&self, news: &[(i64, i64)]) {
        self.tell(news);
        let message: Vec<String> = news.iter().map(|(list, n)| format!("{list}:{n}")).collect();
        let sent = self
            .inner
            .redis
            .publish(self.inner.channel, &message.join(","))
            .await;
        if let Err(e) = sent {
            tracing::debug!(error = %e, channel = self.inner.channel, "other nodes hear of news a little later");
        }
    }

    /// Hears other nodes until `stop`, and asks `latest` for the last numbers of lists. One such task a process.
    pub async fn run<F, E>(&self, stop: CancellationToken, latest: impl Fn(Vec<i64>) -> F)
    where
        F: Future<Output = Result<Vec<(i64, i64)>, E>>,
        E: Display,
    {
        let mut pushes = self.inner.redis.subscribe(self.inner.channel);
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let push = tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => Ok(PushEvent::Resync),
                push = pushes.recv() => push,
            };
            match push {
                Ok(PushEvent::Message(news)) => self.tell(&parse(&news)),
                Ok(PushEvent::Resync) | Err(RecvError::Lagged(_)) => self.look(&latest).await,
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Asks for the last number of every list that is followed here; lists that nobody follows any more are forgotten.
    async fn look<F, E>(&self, latest: impl Fn(Vec<i64>) -> F)
    where
        F: Future<Output = Result<Vec<(i64, i64)>, E>>,
        E: Display,
    {
        let followed: Vec<i64> = {
            let mut lists = self.inner.lists.lock();
            lists.retain(|_, told| told.receiver_count() > 0);
            lists.keys().copied().collect()
        };
        for chunk in followed.chunks(LISTS_PER_LOOK) {
            match latest(chunk.to_vec()).await {
                Ok(news) => self.tell(&news),
                Err(e) => {
                    tracing::debug!(error = %e, channel = self.inner.channel, "lists were not looked at; again in 2 s");
                    return;
                }
            }
        }
    }

    fn tell(&self, news: &[(i64, i64)]) {
        let lists = self.inner.lists.lock();
        for (list, number) in news {
            if let Some(told) = lists.get(list) {
                told.send_if_modified(|known| {
                    let is_new = number > known;
                    *known = (*known).max(*number);
                    is_new
                });
            }
        }
    }
}

/// A list's entries after the number `last`, as they come, each once and in order; there is no end.
///
/// `read` hands out entries above a number, in order and without a gap at its beginning; none when there are none. It
/// must be safe to drop half-way. A reading that fails is done again.
pub fn follow<T, F, E, R>(bell: Bell, last: i64, read: R) -> impl Stream<Item = T> + use<T, F, E, R>
where
    R: Fn(i64) -> F,
    F: Future<Output = Result<Vec<(i64, T)>, E>>,
    E: Display,
{
    let start = (bell, last, VecDeque::new(), read);
    stream::unfold(start, |(mut bell, mut last, mut ready, read)| async move {
        loop {
            if let Some((number, entry)) = ready.pop_front() {
                last = number;
                return Some((entry, (bell, last, ready, read)));
            }
            bell.told.borrow_and_update();
            match read(last).await {
                Ok(entries) if entries.is_empty() => bell.told.changed().await.ok()?,
                Ok(entries) => ready = entries.into(),
                Err(e) => {
                    tracing::debug!(error = %e, "a list that is followed was not read; again in a second");
                    tokio::time::sleep(READ_AGAIN).await;
                }
            }
        }
    })
}

fn parse(news: &str) -> Vec<(i64, i64)> {
    let one = |text: &str| {
        let (list, number) = text.split_once(':')?;
        Some((list.parse().ok()?, number.parse().ok()?))
    };
    news.split(',').filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

    use futures_util::StreamExt;

    use super::{Bells, follow, parse};
    use crate::infra::redis::Redis;

    fn bells() -> Bells {
        let nowhere = Redis::new("redis://127.0.0.1:1", "test").unwrap();
        Bells::new(nowhere, "test")
    }

    #[test]
    fn news_that_cannot_be_read_are_left_out() {
        assert_eq!(parse("1:2,x:3,4,5:6,"), [(1, 2), (5, 6)]);
        assert_eq!(parse(""), []);
    }

    #[tokio::test]
    async fn a_follower_gets_every_entry_once_in_order_and_also_after_a_failed_reading() {
        let bells = bells();
        let written = AtomicI64::new(3);
        let broken = AtomicBool::new(true);
        let read = |after: i64| {
            let upto = written.load(Ordering::Relaxed);
            let fails = after == 3 && upto == 5 && broken.swap(false, Ordering::Relaxed);
            let entries = (after + 1..=upto).map(|n| (n, n)).collect();
            async move { if fails { Err("broken") } else { Ok(entries) } }
        };
        let mut entries = std::pin::pin!(follow(bells.watch(7), 1, read));
        assert_eq!(
            (entries.next().await, entries.next().await),
            (Some(2), Some(3))
        );
        written.store(5, Ordering::Relaxed);
        bells.tell(&[(7, 5), (8, 9)]);
        bells.tell(&[(7, 4), (7, 5)]);
        assert_eq!(
            (entries.next().await, entries.next().await),
            (Some(4), Some(5))
        );
        let more = tokio::time::timeout(std::time::Duration::from_millis(20), entries.next());
        assert!(more.await.is_err());
    }

    #[tokio::test]
    async fn what_nobody_follows_is_forgotten_and_what_was_not_heard_is_found_by_a_look() {
        let bells = bells();
        let kept = bells.watch(1);
        drop(bells.watch(2));
        let latest = async |lists: Vec<i64>| {
            assert_eq!(lists, [1]);
            Ok::<_, String>(vec![(1, 9)])
        };
        bells.look(&latest).await;
        assert_eq!(bells.inner.lists.lock().len(), 1);
        assert_eq!(*kept.told.borrow(), 9);
    }
}

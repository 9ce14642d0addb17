//! Waiting for a condition, never for a time.

use std::time::Duration;

use tokio::time::Instant;

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a look at the world can say: `bool`, or the thing that was waited for.
pub(crate) trait Condition {
    type Found;
    fn found(self) -> Option<Self::Found>;
}

impl Condition for bool {
    type Found = ();
    fn found(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Condition for Option<T> {
    type Found = T;
    fn found(self) -> Option<T> {
        self
    }
}

/// Looks again and again until the condition holds; panics with `what` after `limit`. Always looks at least once, and
/// once more at the limit.
pub(crate) async fn eventually<C: Condition>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> C,
) -> C::Found {
    let deadline = Instant::now() + limit;
    loop {
        let is_last = Instant::now() >= deadline;
        if let Some(found) = look().await.found() {
            return found;
        }
        assert!(!is_last, "not within {limit:?}: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

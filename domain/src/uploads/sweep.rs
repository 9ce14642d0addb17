//! Taking away what was left behind: uploads that nothing named within a day, and those that were broken off. Any
//! number of processes may do it at once.

use std::time::Duration;

use entity::image::{self, ImageState};
use sea_orm::sea_query::ExprTrait;
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use tokio_util::sync::CancellationToken;

use super::{Error, ImageId, Uploads};

/// How often somebody looks. What is swept has waited for far longer.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// How long an upload may stay without anything that names it, in milliseconds.
const UNUSED_MS: i64 = 24 * 3_600_000;
/// An upload that is not stored after this long was broken off, in milliseconds. Storing takes seconds.
const BROKEN_OFF_MS: i64 = 3_600_000;
/// Pictures that may resist before a sweep gives up: then the store is away.
const MOST_FAILURES: u32 = 3;
/// Pictures taken away in one go.
const BATCH: u64 = 200;

impl Uploads {
    /// Sweeps from time to time until `stop`.
    pub async fn run_workers(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let uploads = self.clone();
            // In a task of its own, so that a stop does not drop a question to the database half-way.
            let swept = tokio::spawn(async move { uploads.sweep().await }).await;
            match swept {
                Ok(Ok(0)) => {}
                Ok(Ok(images)) => {
                    tracing::info!(images, "pictures that nothing names were taken away")
                }
                Ok(Err(e)) => tracing::warn!(error = %e, "the sweep of pictures goes on later"),
                Err(e) => tracing::error!(error = %e, "the sweep of pictures ended early"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(SWEEP_EVERY) => {}
            }
        }
    }

    /// Takes away what was left behind; answers how many pictures went.
    ///
    /// # Errors
    /// When a store fails; what is left goes the next time.
    pub async fn sweep(&self) -> Result<u64, Error> {
        let (mut gone, mut after, mut failures) = (0, 0, 0);
        loop {
            let batch = self.left_behind(after).await?;
            let Some(last) = batch.last() else {
                return Ok(gone);
            };
            after = last.id;
            for image in &batch {
                let is_ours = image.state == ImageState::Deleting
                    || self
                        .change(ImageId(image.id), image.state, ImageState::Deleting)
                        .await?;
                if !is_ours {
                    continue;
                }
                match self.remove(image).await {
                    Ok(()) => gone += 1,
                    // One that cannot be taken away must not keep all behind it for ever.
                    Err(e) if failures < MOST_FAILURES => {
                        failures += 1;
                        tracing::warn!(error = %e, image.id = image.id, "a picture could not be taken away");
                    }
                    Err(e) => return Err(e),
                }
            }
        }
    }

    async fn left_behind(&self, after: i64) -> Result<Vec<image::Model>, Error> {
        use image::Column::{CreatedAt, Id, State};
        let now = self.infra.clock.now_ms();
        let unused = State.eq(ImageState::New).and(CreatedAt.lt(now - UNUSED_MS));
        let broken_off = State
            .eq(ImageState::Storing)
            .and(CreatedAt.lt(now - BROKEN_OFF_MS));
        let left = Condition::any()
            .add(unused)
            .add(broken_off)
            .add(State.eq(ImageState::Deleting));
        let rows = image::Entity::find()
            .filter(left)
            .filter(Id.gt(after))
            .order_by_asc(Id)
            .limit(BATCH);
        Ok(rows.all(self.infra.db.conn()).await?)
    }
}

//! Notifications as they come, on any node.

use entity::notification::{self, Column};
use entity::notification_box;
use futures_util::Stream;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use tokio_util::sync::CancellationToken;

use super::{Error, Notification, Notifications};
use crate::infra::bells::follow;
use crate::users::UserId;

/// Notifications in one reading.
const PER_READING: u64 = 100;

impl Notifications {
    /// What a user is told from now on, each once and in order, whichever node writes it. No end; may be dropped at any
    /// time.
    ///
    /// # Errors
    /// The database's.
    pub async fn watch(
        &self,
        user: UserId,
    ) -> Result<impl Stream<Item = Notification> + Send + 'static + use<>, Error> {
        let bell = self.bells.watch(user.0);
        let notifications = self.clone();
        let last = async move { Ok(notifications.get_box(user).await?.last_seq) };
        let last = self.infra.db.run(last).await?;
        let notifications = self.clone();
        let read = move |after| {
            let (db, notifications) = (notifications.infra.db.clone(), notifications.clone());
            async move {
                let read = async move { notifications.after(user, after).await };
                db.run(read).await
            }
        };
        Ok(follow(bell, last, read))
    }

    /// Keeps the watchers of this process told, until `stop`.
    pub async fn run_node(&self, stop: CancellationToken) {
        let latest = |users: Vec<i64>| {
            let db = self.infra.db.clone();
            async move {
                let conn = db.conn().clone();
                let read = async move {
                    let boxes = notification_box::Entity::find()
                        .filter(notification_box::Column::UserId.is_in(users))
                        .all(&conn)
                        .await?;
                    Ok(boxes.iter().map(|b| (b.user_id, b.last_seq)).collect())
                };
                db.run(read).await
            }
        };
        self.bells.run(stop, latest).await;
    }

    async fn after(&self, user: UserId, seq: i64) -> Result<Vec<(i64, Notification)>, DbErr> {
        let rows = notification::Entity::find()
            .filter(Column::UserId.eq(user.0))
            .filter(Column::Seq.gt(seq))
            .order_by_asc(Column::Seq)
            .limit(PER_READING)
            .all(self.infra.db.conn())
            .await?;
        // Nobody can have read what nobody was told.
        let told = rows
            .into_iter()
            .map(|row| (row.seq, Notification::of(row, 0)));
        Ok(told.collect())
    }
}

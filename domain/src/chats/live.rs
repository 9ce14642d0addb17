//! Messages as they come and go, on any node and any device of a user.

use entity::{chat_box, message};
use futures_util::Stream;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use tokio_util::sync::CancellationToken;

use super::{Chats, Error, Message};
use crate::infra::bells::follow;
use crate::users::UserId;

/// Messages in one reading, in each direction.
const PER_READING: u64 = 100;

impl Chats {
    /// What is written to and by a user from now on, each once and in order, whichever node writes it. No end; may be
    /// dropped at any time.
    ///
    /// # Errors
    /// The database's.
    pub async fn watch(
        &self,
        user: UserId,
    ) -> Result<impl Stream<Item = Message> + Send + 'static + use<>, Error> {
        let bell = self.bells.watch(user.0);
        let db = self.infra.db.clone();
        let last = async move {
            let found = chat_box::Entity::find_by_id(user.0).one(db.conn()).await?;
            Ok(found.map_or(0, |b| b.last_feed))
        };
        let last = self.infra.db.run(last).await?;
        let chats = self.clone();
        let read = move |after| {
            let (db, chats) = (chats.infra.db.clone(), chats.clone());
            async move { db.run(async move { chats.after(user, after).await }).await }
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
                    let boxes = chat_box::Entity::find()
                        .filter(chat_box::Column::UserId.is_in(users))
                        .all(&conn)
                        .await?;
                    Ok(boxes.iter().map(|b| (b.user_id, b.last_feed)).collect())
                };
                db.run(read).await
            }
        };
        self.bells.run(stop, latest).await;
    }

    /// A user's messages above a number, in and out, without a gap.
    async fn after(&self, user: UserId, feed: i64) -> Result<Vec<(i64, Message)>, DbErr> {
        use message::Column;
        let conn = self.infra.db.conn();
        let written = message::Entity::find()
            .filter(Column::SenderId.eq(user.0))
            .filter(Column::SenderFeed.gt(feed))
            .order_by_asc(Column::SenderFeed)
            .limit(PER_READING)
            .all(conn)
            .await?;
        let received = message::Entity::find()
            .filter(Column::RecipientId.eq(user.0))
            .filter(Column::RecipientFeed.gt(feed))
            .order_by_asc(Column::RecipientFeed)
            .limit(PER_READING)
            .all(conn)
            .await?;
        let written = written.into_iter().map(|m| (m.sender_feed, m));
        let received = received.into_iter().map(|m| (m.recipient_feed, m));
        Ok(without_a_gap(feed, written.chain(received).collect()))
    }
}

/// What was committed between the two questions, or lies beyond one's limit, would leave a gap: it waits for the next.
fn without_a_gap<T>(after: i64, mut entries: Vec<(i64, T)>) -> Vec<(i64, T)> {
    entries.sort_by_key(|(number, _)| *number);
    let next = (after + 1..).zip(&entries);
    let whole = next.take_while(|(n, (number, _))| n == number).count();
    entries.truncate(whole);
    entries
}

#[cfg(test)]
mod tests {
    use super::without_a_gap;

    #[test]
    fn entries_end_before_a_gap() {
        let entries = vec![(7, 'c'), (5, 'a'), (6, 'b'), (9, 'd')];
        assert_eq!(without_a_gap(4, entries), [(5, 'a'), (6, 'b'), (7, 'c')]);
        assert_eq!(without_a_gap(4, vec![(6, 'b')]), []);
        assert_eq!(without_a_gap::<char>(0, vec![]), []);
    }
}

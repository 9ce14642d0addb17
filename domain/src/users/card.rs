//! A user as others see them, from the cache. Neither phone nor role: what decides reads the database.

use entity::user::{self, Gender};
use sea_orm::{DbErr, EntityTrait};
use serde::{Deserialize, Serialize};

use super::{Error, User, UserId, Users};
use crate::infra::cache::Kind;

/// The card of a user by their id.
#[derive(Clone, Copy)]
pub(super) struct UserById;

impl Kind for UserById {
    type Key = UserId;
    type Value = UserCard;
    const NAME: &'static str = "user";
    /// 2: the time zone.
    const FORMAT: u32 = 2;

    fn number(id: &UserId) -> Option<i64> {
        Some(id.0)
    }
}

/// What a user shows, and what only they see: birthday and time zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserCard {
    /// The user.
    pub id: i64,
    /// Name shown to others.
    pub nickname: String,
    /// Picture, `None` until set.
    pub avatar_url: Option<String>,
    /// City, `None` until set.
    pub city: Option<String>,
    /// A few words about oneself, `None` until set.
    pub intro: Option<String>,
    /// Gender, `None` until set.
    pub gender: Option<Gender>,
    /// Birthday, `None` until set.
    pub birthday: Option<chrono::NaiveDate>,
    /// Time zone, `None` until set.
    #[serde(default)]
    pub time_zone: Option<String>,
}

impl From<&User> for UserCard {
    fn from(user: &User) -> Self {
        Self {
            id: user.id,
            nickname: user.nickname.clone(),
            avatar_url: user.avatar_url.clone(),
            city: user.city.clone(),
            intro: user.intro.clone(),
            gender: user.gender,
            birthday: user.birthday,
            time_zone: user.time_zone.clone(),
        }
    }
}

impl Users {
    /// Cards of users, by id; those that do not exist are left out. Other nodes' changes may be 5 s old.
    ///
    /// # Errors
    /// The database's; `Cache` when somebody else loads and takes long.
    pub async fn cards(&self, ids: &[UserId]) -> Result<Vec<UserCard>, Error> {
        let users = self.clone();
        let load = move |id| {
            let users = users.clone();
            async move { users.read_card(id).await }
        };
        let cache = &self.inner.infra.cache;
        let found = cache.get_or_load_each(UserById, ids, load).await?;
        Ok(found.iter().map(|card| UserCard::clone(card)).collect())
    }

    async fn read_card(&self, id: UserId) -> Result<Option<(i64, UserCard)>, DbErr> {
        let row = user::Entity::find_by_id(id.0);
        let row = row.one(self.inner.infra.db.conn()).await?;
        Ok(row.map(|row| (row.version, UserCard::from(&row))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infra::cache::assert_golden;

    #[test]
    fn what_is_kept_of_a_user_is_read_by_the_next_version_and_holds_no_phone() {
        assert_golden::<UserById>(
            r#"{"format":2,"value":{"id":7,"nickname":"Lan","avatar_url":null,"city":"Hà Nội","intro":null,"gender":"FEMALE","birthday":"2000-02-29","time_zone":null}}"#,
        );
    }
}

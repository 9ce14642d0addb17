//! A person with an account. The table `users`.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// What a user may do.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Role {
    /// Buys and writes.
    #[sea_orm(string_value = "USER")]
    User,
    /// Runs own shops.
    #[sea_orm(string_value = "MERCHANT")]
    Merchant,
    /// Runs the place.
    #[sea_orm(string_value = "ADMIN")]
    Admin,
}

/// A gender.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Gender {
    /// Female.
    #[sea_orm(string_value = "FEMALE")]
    Female,
    /// Male.
    #[sea_orm(string_value = "MALE")]
    Male,
    /// Another.
    #[sea_orm(string_value = "OTHER")]
    Other,
}

/// A person with an account.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "users")]
pub struct Model {
    /// The user.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// Phone number in E.164, unique.
    pub phone: String,
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
    pub birthday: Option<Date>,
    /// What the user may do.
    pub role: Role,
    /// Since when the user is shut out, in epoch milliseconds; `None`: he is not.
    pub banned_at: Option<i64>,
    /// The IANA name of the zone whose days are the user's; `None` until set.
    pub time_zone: Option<String>,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
    /// When it was last changed, in epoch milliseconds.
    pub updated_at: i64,
    /// Grows with each change of the row.
    pub version: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! The days of one year on which a user signed in. The table `sign_ins`.

use sea_orm::entity::prelude::*;

/// The days of one year on which a user signed in. In each map the first bit is the first of January.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sign_ins")]
pub struct Model {
    /// The user.
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: i64,
    /// The year.
    #[sea_orm(primary_key, auto_increment = false)]
    pub year: i32,
    /// Days signed: 46 bytes, the lowest bit of a byte first.
    #[sea_orm(column_type = "VarBinary(StringLen::N(46))")]
    pub signed: Vec<u8>,
    /// Which of them were signed afterwards.
    #[sea_orm(column_type = "VarBinary(StringLen::N(46))")]
    pub made_up: Vec<u8>,
    /// Which of them go on from the signed day before, although days in between are not signed.
    #[sea_orm(column_type = "VarBinary(StringLen::N(46))")]
    pub joined: Vec<u8>,
    /// The zone in which the user last signed in.
    pub time_zone: String,
    /// When it was last changed, in epoch milliseconds.
    pub updated_at: i64,
    /// Grows with each change of the row.
    pub version: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

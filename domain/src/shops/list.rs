//! Lists of shops, by keyset: a page begins after the last shop of the one before, whatever was added meanwhile.

use entity::shop::{self, Column, ShopStatus};
use sea_orm::sea_query::{Expr, ExprTrait, Func, LikeExpr};
use sea_orm::{ColumnTrait, Condition, EntityTrait, Order, QueryFilter, QueryOrder, QuerySelect};
use serde::{Deserialize, Serialize};

use super::{Error, Shop, ShopId, ShopTypeId, Shops};

/// Which shops to list; closed ones are never listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShopFilter {
    /// Only this type.
    pub type_id: Option<ShopTypeId>,
    /// Only shops whose name contains this, whatever the case.
    pub name_contains: Option<String>,
}

/// The order of a list of shops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ShopSort {
    /// The latest first.
    #[default]
    Newest,
    /// The best rated first.
    Score,
    /// The most sold first.
    Sold,
    /// The cheapest first; those without a price last.
    Price,
}

/// A place in a list: what it is sorted by, and the shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShopKey {
    /// The value sorted by.
    pub value: i64,
    /// The shop.
    pub id: ShopId,
}

/// Stands for "no price" in a list sorted by price: above every price.
const NO_PRICE: i64 = i64::MAX;

impl ShopSort {
    /// The place of a shop in a list of this order.
    pub fn key(self, shop: &Shop) -> ShopKey {
        let value = match self {
            Self::Newest => shop.id,
            Self::Score => i64::from(shop.score_tenths),
            Self::Sold => shop.sold_count,
            Self::Price => shop.average_price_minor.unwrap_or(NO_PRICE),
        };
        ShopKey {
            value,
            id: ShopId(shop.id),
        }
    }

    fn value(self) -> Expr {
        match self {
            Self::Newest => Expr::col(Column::Id),
            Self::Score => Expr::col(Column::ScoreTenths),
            Self::Sold => Expr::col(Column::SoldCount),
            Self::Price => {
                Func::coalesce([Expr::col(Column::AveragePriceMinor), Expr::value(NO_PRICE)]).into()
            }
        }
    }

    fn order(self) -> Order {
        if self == Self::Price {
            Order::Asc
        } else {
            Order::Desc
        }
    }

    fn after(self, key: ShopKey) -> Condition {
        let same = Expr::expr(self.value()).eq(key.value);
        let (beyond, next) = match self.order() {
            Order::Asc => (
                Expr::expr(self.value()).gt(key.value),
                Column::Id.gt(key.id.0),
            ),
            _ => (
                Expr::expr(self.value()).lt(key.value),
                Column::Id.lt(key.id.0),
            ),
        };
        Condition::any()
            .add(beyond)
            .add(Condition::all().add(same).add(next))
    }
}

impl Shops {
    /// Open shops in an order, after a place in it; at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn list(
        &self,
        filter: &ShopFilter,
        sort: ShopSort,
        after: Option<ShopKey>,
        limit: u64,
    ) -> Result<Vec<Shop>, Error> {
        let mut shops = shop::Entity::find().filter(Column::Status.eq(ShopStatus::Open));
        if let Some(shop_type) = filter.type_id {
            shops = shops.filter(Column::TypeId.eq(shop_type.0));
        }
        if let Some(part) = &filter.name_contains {
            let pattern = LikeExpr::new(format!("%{}%", escaped(&part.to_lowercase()))).escape('!');
            shops = shops.filter(Expr::expr(Func::lower(Expr::col(Column::Name))).like(pattern));
        }
        if let Some(key) = after {
            shops = shops.filter(sort.after(key));
        }
        let shops = shops
            .order_by(sort.value(), sort.order())
            .order_by(Column::Id, sort.order())
            .limit(limit);
        Ok(shops.all(self.infra.db.conn()).await?)
    }
}

/// Takes the meaning from LIKE's wildcards.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '%' | '_' | '!') {
            escaped.push('!');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    #[test]
    fn wildcards_of_a_name_mean_themselves() {
        assert_eq!(super::escaped("100%_!"), "100!%!_!!");
    }
}

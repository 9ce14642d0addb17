//! Lists of shops, by keyset: a page begins after the last shop of the one before, whatever was added meanwhile.

use entity::shop::{self, Column, ShopStatus};
use sea_orm::sea_query::extension::postgres::PgBinOper;
use sea_orm::sea_query::extension::sqlite::SqliteExpr;
use sea_orm::sea_query::{Expr, ExprTrait, Func};
use sea_orm::{
    ColumnTrait, Condition, DbBackend, EntityTrait, Order, QueryFilter, QueryOrder, QuerySelect,
    Select,
};
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
    /// Open shops in an order, after a place in it; at most `limit`. A first page of at most 20 comes from the cache and
    /// may be 15 s behind other nodes' changes.
    ///
    /// # Errors
    /// When the database fails; `Cache` when somebody else loads and takes long.
    pub async fn list(
        &self,
        filter: &ShopFilter,
        sort: ShopSort,
        after: Option<ShopKey>,
        limit: u64,
    ) -> Result<Vec<Shop>, Error> {
        if after.is_none()
            && let Some(shops) = self.first_page(filter, sort, limit).await?
        {
            return Ok(shops);
        }
        let shops = self.ordered(filter, sort, after, limit);
        Ok(shops.all(self.infra.db.conn()).await?)
    }

    pub(super) fn ordered(
        &self,
        filter: &ShopFilter,
        sort: ShopSort,
        after: Option<ShopKey>,
        limit: u64,
    ) -> Select<shop::Entity> {
        let mut shops = shop::Entity::find().filter(Column::Status.eq(ShopStatus::Open));
        if let Some(shop_type) = filter.type_id {
            shops = shops.filter(Column::TypeId.eq(shop_type.0));
        }
        if let Some(part) = &filter.name_contains {
            shops = shops.filter(name_contains(self.infra.db.backend(), part));
        }
        if let Some(key) = after {
            shops = shops.filter(sort.after(key));
        }
        shops
            .order_by(sort.value(), sort.order())
            .order_by(Column::Id, sort.order())
            .limit(limit)
    }
}

/// The rule that a name contains a text, whatever the case of either and of whatever script.
fn name_contains(backend: DbBackend, text: &str) -> Expr {
    let name = Expr::col(Column::Name);
    match backend {
        // Its LOWER and LIKE know the case of ASCII only: with them "quán" would not find "QUÁN".
        DbBackend::Sqlite => {
            let pattern = in_any_case(text, |c| match c {
                '*' | '?' | '[' => format!("[{c}]"),
                _ => c.to_string(),
            });
            name.glob(format!("*{pattern}*"))
        }
        // Its LOWER knows the letters of its locale, which is often "C": ASCII only.
        DbBackend::Postgres => {
            let pattern = in_any_case(text, |c| {
                let escape = if c.is_ascii_punctuation() { "\\" } else { "" };
                format!("{escape}{c}")
            });
            name.binary(PgBinOper::Regex, pattern)
        }
        _ => {
            let pattern = Expr::value(format!("%{}%", escaped(text)));
            let sides = [name, pattern].map(|side| Func::lower(side).into());
            Expr::cust_with_exprs("? LIKE ? ESCAPE '!'", sides)
        }
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

/// A pattern in which each letter stands for its other case too, `[aA]`, and all else for itself, as `literal` writes it.
fn in_any_case(text: &str, literal: impl Fn(char) -> String) -> String {
    let mut pattern = String::with_capacity(text.len() * 4);
    for character in text.chars() {
        let cases = cases(character);
        if cases.len() > 1 {
            pattern.push('[');
            pattern.extend(cases);
            pattern.push(']');
        } else {
            pattern.push_str(&literal(character));
        }
    }
    pattern
}

/// A character in each case that is one character.
fn cases(character: char) -> Vec<char> {
    let mut cases = vec![character];
    let one = |mut of: Vec<char>| if of.len() == 1 { of.pop() } else { None };
    let lower = one(character.to_lowercase().collect());
    let upper = one(character.to_uppercase().collect());
    for other in lower.into_iter().chain(upper) {
        if !cases.contains(&other) {
            cases.push(other);
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use sea_orm::QueryTrait;

    use super::*;

    fn rule(backend: DbBackend, text: &str) -> String {
        let query = shop::Entity::find().filter(name_contains(backend, text));
        let sql = query.build(backend).to_string();
        sql.split_once("WHERE ").unwrap().1.to_owned()
    }

    #[test]
    fn wildcards_of_a_name_mean_themselves() {
        assert_eq!(escaped("100%_!"), "100!%!_!!");
        assert_eq!(
            rule(DbBackend::Sqlite, "1*?[]^-%_"),
            r#""name" GLOB '*1[*][?][[]]^-%_*'"#
        );
        let postgres = rule(DbBackend::Postgres, "1.(*[^$|%_]");
        assert!(
            postgres.contains(r"1\\.\\(\\*\\[\\^\\$\\|\\%\\_\\]"),
            "{postgres}"
        );
        let mysql = rule(DbBackend::MySql, "100%");
        assert_eq!(mysql, "LOWER(`name`) LIKE LOWER('%100!%%') ESCAPE '!'");
    }

    #[test]
    fn a_letter_stands_for_its_other_case_in_any_script() {
        let pattern = |text| in_any_case(text, |c| c.to_string());
        assert_eq!(pattern("quÁ đ1"), "[qQ][uU][Áá] [đĐ]1");
        assert_eq!(pattern("河ß"), "河ß");
    }
}

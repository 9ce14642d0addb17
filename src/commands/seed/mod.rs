//! `seed`: demo data for people who explore. Real places, a merchant, an administrator, flash sales to click on, and
//! people with their notes, likes and chats.
//! Running it again adds only what is missing.

mod pictures;
mod words;
mod world;

use std::io::Cursor;
use std::time::Duration;

use anyhow::Context;
use domain::Services;
use domain::shops::import::ImportReport;
use domain::shops::{GeoPoint, NearbyQuery, ShopId};
use domain::users::{Phone, Role, Session, UserId};
use domain::vouchers::{
    Currency, FlashSaleFilter, Kind, Money, NewOffer, NewSale, NewVoucher, SaleState, VoucherId,
};

use super::Opened;
use crate::config::Config;

/// Places around Hoàn Kiếm lake, © OpenStreetMap contributors, ODbL: see data/README.md.
const PLACES: &[u8] = include_bytes!("../../../data/osm-hanoi-food.json");
/// Hoàn Kiếm lake.
const LAKE: (f64, f64) = (21.0287, 105.8524);
/// The demo merchant and the demo administrator: log in with these phones.
const MERCHANT_PHONE: &str = "+8613800000001";
const ADMIN_PHONE: &str = "+8613800000000";

const MINUTE_MS: i64 = 60 * 1_000;
/// Shops that the demo people write about.
const SHOPS: usize = 12;

const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// A demo sale: title, price and value in VND, units, begin and end in milliseconds from now.
const SALES: [(&str, i64, i64, i64, i64, i64); 5] = [
    ("Lunch by the lake", 19_900, 100_000, 1_000, 0, 7 * DAY_MS),
    ("Egg coffee for two", 9_900, 60_000, 200, 0, 7 * DAY_MS),
    (
        "The last three bowls of phở",
        1_000,
        70_000,
        3,
        0,
        7 * DAY_MS,
    ),
    (
        "Rooftop drinks, in ten minutes",
        49_000,
        180_000,
        100,
        10 * MINUTE_MS,
        DAY_MS,
    ),
    (
        "Tasting menu, tomorrow",
        99_000,
        500_000,
        50,
        DAY_MS,
        2 * DAY_MS,
    ),
];

/// Nothing can be told.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

/// What a seeding did.
pub(crate) struct SeedReport {
    shops: ImportReport,
    sales: usize,
    notes: usize,
}

pub(crate) async fn run(config: Config, _args: Args) -> anyhow::Result<()> {
    let opened = Opened::connect(&config).await?;
    let report = seed(&opened.services).await;
    opened.close().await;
    let SeedReport {
        shops,
        sales,
        notes,
    } = report?;
    say(&format!(
        "shops: {shops}\nflash sales published: {sales}\nnotes: {notes}\nguest: {}\nmerchant: {MERCHANT_PHONE}\nadministrator: {ADMIN_PHONE}",
        words::PEOPLE[0].0
    ));
    Ok(())
}

/// Seeds a database that has no shops yet, a first start, and one whose first seeding was broken off.
pub(crate) async fn seed_first_start(services: &Services) -> anyhow::Result<()> {
    let is_empty = services.shops.types().await?.is_empty();
    if is_empty || (is_begun(services).await? && !world::is_built(services).await?) {
        let SeedReport { shops, sales, .. } = seed(services).await?;
        tracing::info!(shops.imported = shops.imported, sales, "added demo data");
        say(&format!(
            "demo guest: log in as {}; merchant: {MERCHANT_PHONE}; administrator: {ADMIN_PHONE}",
            words::PEOPLE[0].0
        ));
    }
    Ok(())
}

/// The merchant is the first thing that a seeding adds.
async fn is_begun(services: &Services) -> anyhow::Result<bool> {
    let phone = Phone::parse(MERCHANT_PHONE)?;
    Ok(services.users.find_by_phone(&phone).await?.is_some())
}

/// Adds the demo data that is missing.
pub(crate) async fn seed(services: &Services) -> anyhow::Result<SeedReport> {
    let merchant = services
        .users
        .grant(&Phone::parse(MERCHANT_PHONE)?, Role::Merchant)
        .await?;
    services
        .users
        .grant(&Phone::parse(ADMIN_PHONE)?, Role::Admin)
        .await?;
    let shops = services
        .shops
        .import(Cursor::new(PLACES), |_, _| {})
        .await
        .context("import the demo places")?;
    let session = Session::of_command(UserId(merchant.id), Role::Admin);
    let query = NearbyQuery {
        center: GeoPoint::new(LAKE.0, LAKE.1)?,
        radius_meters: 2_000,
        type_id: None,
        after: None,
        limit: SHOPS,
    };
    let mut sales = 0;
    let near = services.shops.nearby(query).await?;
    let places: Vec<ShopId> = near.iter().map(|near| ShopId(near.shop.id)).collect();
    for (near, sale) in near.into_iter().zip(SALES) {
        let shop = ShopId(near.shop.id);
        if near.shop.owner_id.is_none() {
            let owner = Some(UserId(merchant.id));
            services.shops.set_owner(shop, owner).await?;
        }
        if first_sale(services, shop, None).await?.is_some() {
            continue;
        }
        // A seeding that was broken off may have left a draft.
        let voucher = match first_sale(services, shop, Some(SaleState::Draft)).await? {
            Some(draft) => draft,
            None => draft_sale(services, &session, shop, sale).await?,
        };
        publish(services, &session, voucher)
            .await
            .with_context(|| format!("publish {}", sale.0))?;
        sales += 1;
    }
    let notes = world::build(services, &places).await?;
    Ok(SeedReport {
        shops,
        sales,
        notes,
    })
}

/// A sale of the shop in a state; `None` for the state: one that is published.
async fn first_sale(
    services: &Services,
    shop: ShopId,
    state: Option<SaleState>,
) -> anyhow::Result<Option<VoucherId>> {
    let shop_id = Some(shop);
    let filter = FlashSaleFilter { state, shop_id };
    let found = services.vouchers.flash_sales(filter, None, 1).await?;
    Ok(found.first().map(|sale| VoucherId(sale.voucher_id)))
}

async fn draft_sale(
    services: &Services,
    session: &Session,
    shop: ShopId,
    sale: (&str, i64, i64, i64, i64, i64),
) -> anyhow::Result<VoucherId> {
    let (title, price, value, total, begin, end) = sale;
    let now = services.infra().clock.now_ms();
    let dong = |minor| Currency::parse("VND").map(|currency| Money { minor, currency });
    let new = NewVoucher {
        shop_id: shop,
        kind: Kind::Seckill,
        title: title.to_owned(),
        sub_title: Some("Flash sale".to_owned()),
        rules: Some(
            "One for each person. Pay within the time shown, or the unit goes back on sale."
                .to_owned(),
        ),
        price: dong(price)?,
        value: dong(value)?,
        sale: Some(NewSale {
            begin_ms: now + begin,
            end_ms: now + end,
            total,
            per_user_limit: 1,
            max_attempts: None,
        }),
        offer: NewOffer::default(),
    };
    let voucher = services.vouchers.create(session, new).await?;
    Ok(VoucherId(voucher.id))
}

/// Publishes, also while a fresh Redis is still being prepared.
async fn publish(services: &Services, session: &Session, voucher: VoucherId) -> anyhow::Result<()> {
    let mut tries = 0;
    loop {
        match services.orders.publish(session, voucher).await {
            Err(domain::orders::Error::TryLater(_)) if tries < 20 => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            result => return Ok(result.map(|_| ())?),
        }
    }
}

#[expect(clippy::print_stdout, reason = "the report is what the command is for")]
fn say(text: &str) {
    println!("{text}");
}

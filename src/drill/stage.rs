//! Before the curtain: users with sessions, a merchant with a shop, a sale that is open. Nobody clicks yet.

use anyhow::{Context, anyhow};
use domain::Services;
use domain::shops::{GeoPoint, ShopDetails, ShopId, ShopTypeId};
use domain::users::{Phone, Role, Session};
use domain::vouchers::{Currency, Kind, Money, NewOffer, NewSale, NewVoucher, VoucherId};
use serde_json::json;

use super::buyer::{Buyer, Counter};
use super::{DrillOptions, Venue};

/// The sale is open this long: longer than any drill takes.
const OPEN_FOR_MS: i64 = 24 * 3_600_000;
const PUBLISH: &str =
    "mutation($input: PublishVoucherInput!) { publishVoucher(input: $input) { voucher { id } } }";

/// Makes everything the sale needs.
pub(super) async fn prepare(
    services: &Services,
    options: &DrillOptions,
) -> anyhow::Result<(Venue, Vec<Buyer>)> {
    let counters = options
        .urls
        .iter()
        .map(|url| Counter::at(url, options.clients))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (merchant, token) = merchant(services).await.context("make a merchant")?;
    let voucher_id = voucher(services, &merchant, options.stock)
        .await
        .context("make a voucher")?;
    let voucher = schema::scalars::global_id("Voucher", voucher_id.0).to_string();
    publish(&counters, &token, &voucher)
        .await
        .context("publish the sale")?;
    let minted = services
        .users
        .mint_sessions(options.users)
        .await
        .context("make users")?;
    let run = format!("drill-{voucher_id}");
    let buyers = minted
        .into_iter()
        .enumerate()
        .map(|(number, session)| Buyer::new(number, session, &run))
        .collect();
    Ok((
        Venue {
            counters,
            voucher_id,
            voucher,
        },
        buyers,
    ))
}

async fn merchant(services: &Services) -> anyhow::Result<(Session, String)> {
    let minted = services
        .users
        .mint_sessions(1)
        .await?
        .pop()
        .context("a session that was made")?;
    services
        .users
        .grant(&Phone::parse(&minted.phone)?, Role::Merchant)
        .await?;
    let session = services
        .users
        .authenticate(&minted.token)
        .await?
        .context("the merchant's session")?;
    Ok((session, minted.token))
}

async fn voucher(services: &Services, merchant: &Session, stock: u32) -> anyhow::Result<VoucherId> {
    let types = services.shops.types().await?;
    let shop_type = types
        .first()
        .ok_or_else(|| anyhow!("there are no types of shops yet: run `lifemate seed` first"))?;
    let details = ShopDetails {
        name: "Drill kitchen".to_owned(),
        type_id: ShopTypeId(shop_type.id),
        location: GeoPoint::new(21.0287, 105.8524)?,
        address: None,
        area: None,
        open_hours: None,
        average_price: None,
        image_ids: None,
    };
    let shop = services.shops.create(merchant, details).await?;
    let currency = Currency::parse("VND")?;
    let now = services.infra().clock.now_ms();
    let sale = NewSale {
        begin_ms: now,
        end_ms: now + OPEN_FOR_MS,
        total: i64::from(stock),
        per_user_limit: 1,
        max_attempts: None,
    };
    let new = NewVoucher {
        shop_id: ShopId(shop.id),
        kind: Kind::Seckill,
        title: "Drill noodles".to_owned(),
        sub_title: None,
        rules: None,
        price: Money {
            minor: 50_000,
            currency,
        },
        value: Money {
            minor: 100_000,
            currency,
        },
        sale: Some(sale),
        offer: NewOffer::default(),
    };
    Ok(VoucherId(services.vouchers.create(merchant, new).await?.id))
}

async fn publish(counters: &[Counter], token: &str, voucher: &str) -> anyhow::Result<()> {
    let counter = counters.first().context("the address of a server")?;
    let answer = counter
        .ask(token, PUBLISH, json!({ "input": { "voucherId": voucher } }))
        .await?;
    match answer.get("errors") {
        None => Ok(()),
        Some(errors) => Err(anyhow!("the server refuses: {errors}")),
    }
}

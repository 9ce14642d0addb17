//! Flash sales, made as a merchant makes them: through the API. And what buyers do with them.

use std::time::Duration;

use async_graphql::ID;
use chrono::{DateTime, Utc};
use domain::vouchers::VoucherId;
use serde_json::{Value, json};

use super::client::{Answer, Client};
use super::people::TestUser;

/// A sale in the making: open now for an hour, 10 units, one a buyer, 9.90 CNY, unless said otherwise.
pub(crate) struct SaleBuilder {
    client: Client,
    merchant: TestUser,
    shop: Option<String>,
    total: u64,
    limit: u32,
    attempts: Option<u32>,
    price: String,
    starts_at: DateTime<Utc>,
    ends_at: DateTime<Utc>,
    is_published: bool,
}

/// A sale that exists.
#[derive(Clone, Debug)]
pub(crate) struct TestSale {
    /// The voucher's ID as the API gives it.
    pub(crate) voucher: String,
    pub(crate) voucher_id: VoucherId,
    /// The shop's ID as the API gives it.
    pub(crate) shop: String,
    pub(crate) merchant: TestUser,
}

impl SaleBuilder {
    /// A sale of this merchant's, who must have the role.
    pub(crate) fn by(client: &Client, merchant: &TestUser) -> Self {
        let now = Utc::now();
        Self {
            client: client.as_user(merchant),
            merchant: merchant.clone(),
            shop: None,
            total: 10,
            limit: 1,
            attempts: None,
            price: "9.90".to_owned(),
            starts_at: now - Duration::from_secs(60),
            ends_at: now + Duration::from_secs(3600),
            is_published: true,
        }
    }

    /// At a shop that exists; else one is made.
    pub(crate) fn at_shop(mut self, shop: &str) -> Self {
        self.shop = Some(shop.to_owned());
        self
    }

    /// Units in all.
    pub(crate) fn stock(mut self, total: u64) -> Self {
        self.total = total;
        self
    }

    /// Units a buyer may hold.
    pub(crate) fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Orders a buyer may place, closed ones included.
    pub(crate) fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// In the major unit.
    pub(crate) fn price(mut self, price: &str) -> Self {
        self.price = price.to_owned();
        self
    }

    /// Opens only later.
    pub(crate) fn opens_in(mut self, wait: Duration) -> Self {
        self.starts_at = Utc::now() + wait;
        self
    }

    /// Ends sooner than in an hour.
    pub(crate) fn ends_in(mut self, wait: Duration) -> Self {
        self.ends_at = Utc::now() + wait;
        self
    }

    /// Created, and not published.
    pub(crate) fn draft(mut self) -> Self {
        self.is_published = false;
        self
    }

    /// Makes the shop, the voucher and, unless it is a draft, the sale.
    pub(crate) async fn create(self) -> TestSale {
        let shop = match &self.shop {
            Some(shop) => shop.clone(),
            None => create_shop(&self.client).await,
        };
        let voucher = self.create_voucher(&shop).await;
        if self.is_published {
            publish(&self.client, &voucher).await.data();
        }
        TestSale {
            voucher_id: voucher_id(&voucher),
            voucher,
            shop,
            merchant: self.merchant,
        }
    }

    async fn create_voucher(&self, shop: &str) -> String {
        let query = "mutation($input: CreateVoucherInput!) { createVoucher(input: $input) { voucher { id } } }";
        let input = json!({
            "shopId": shop,
            "kind": "SECKILL",
            "title": "A bowl of noodles",
            "payPrice": self.price,
            "value": "99.00",
            "currencyCode": "CNY",
            "sale": {
                "total": self.total,
                "perUserLimit": self.limit,
                "maxAttempts": self.attempts,
                "startsAt": self.starts_at.to_rfc3339(),
                "endsAt": self.ends_at.to_rfc3339(),
            },
        });
        let answer = self.client.gql(query, json!({ "input": input })).await;
        answer.text("createVoucher.voucher.id").to_owned()
    }
}

/// Makes a shop of the client's merchant.
pub(crate) async fn create_shop(client: &Client) -> String {
    let types = client.gql("{ shopTypes { id } }", Value::Null).await;
    let query = "mutation($input: CreateShopInput!) { createShop(input: $input) { shop { id } } }";
    let location = json!({ "latitude": 21.0287, "longitude": 105.8524 });
    let input = json!({ "name": "Noodles by the lake", "typeId": types.text("shopTypes.0.id"), "location": location });
    let answer = client.gql(query, json!({ "input": input })).await;
    answer.text("createShop.shop.id").to_owned()
}

/// Opens a sale that is a draft.
pub(crate) async fn publish(merchant: &Client, voucher: &str) -> Answer {
    let query = "mutation($voucher: ID!) { publishVoucher(input: { voucherId: $voucher }) { voucher { id } } }";
    merchant.gql(query, json!({ "voucher": voucher })).await
}

const SECKILL: &str =
    "mutation($input: SeckillVoucherInput!) { seckillVoucher(input: $input) { result {
    __typename
    ... on SeckillAccepted { order { id status } }
    ... on SeckillPending { orderId }
    ... on AlreadyOrdered { order { id status } }
    ... on SaleNotStarted { startsAt }
    ... on RateLimited { retryAfterMs }
    ... on TryLater { retryAfterMs }
} } }";

/// One buyer's click.
pub(crate) async fn seckill(buyer: &Client, voucher: &str, request_id: &str) -> Click {
    try_seckill(buyer, voucher, request_id).await.unwrap()
}

/// One buyer's click at a server that may go away meanwhile.
pub(crate) async fn try_seckill(
    buyer: &Client,
    voucher: &str,
    request_id: &str,
) -> reqwest::Result<Click> {
    let input = json!({ "voucherId": voucher, "clientRequestId": request_id });
    let answer = buyer.try_gql(SECKILL, json!({ "input": input })).await?;
    Ok(Click { answer })
}

/// What a click was answered.
#[derive(Clone, Debug)]
pub(crate) struct Click {
    pub(crate) answer: Answer,
}

impl Click {
    /// The name of the result's type, or of the error's code.
    #[track_caller]
    pub(crate) fn kind(&self) -> &str {
        match self.answer.code() {
            Some(code) => code,
            None => self.answer.text("seckillVoucher.result.__typename"),
        }
    }

    /// Whether the buyer was told "yes".
    pub(crate) fn is_accepted(&self) -> bool {
        self.kind() == "SeckillAccepted"
    }

    /// The order's ID, where the answer holds one.
    pub(crate) fn order(&self) -> Option<&str> {
        let result = self.answer.data().pointer("/seckillVoucher/result")?;
        result
            .pointer("/order/id")
            .or_else(|| result.get("orderId"))?
            .as_str()
    }

    /// The order's ID of an accepted click; panics on any other answer.
    #[track_caller]
    pub(crate) fn accepted(&self) -> String {
        assert!(
            self.is_accepted(),
            "expected SeckillAccepted, got {}",
            self.answer.body
        );
        self.order().unwrap().to_owned()
    }
}

/// Reads one order of the client's user; null when it is not theirs.
pub(crate) async fn order(buyer: &Client, order: &str) -> Value {
    let query = "query($id: ID!) { viewer { order(id: $id) {
        id status rejection slot createdAt payBy paidAt closedAt usedAt closeReason refund { amount { amount currencyCode } status } version
    } } }";
    buyer
        .gql(query, json!({ "id": order }))
        .await
        .at("viewer.order")
        .clone()
}

/// Asks to pay.
pub(crate) async fn pay(buyer: &Client, order: &str) -> Answer {
    let query = "mutation($input: PayOrderInput!) { payOrder(input: $input) { __typename } }";
    buyer
        .gql(query, json!({ "input": { "orderId": order } }))
        .await
}

/// Plays the provider: `SUCCEED`, `FAIL`, `REPEAT`, `PAY_TWICE`, `WRONG_AMOUNT` or `LATE`.
pub(crate) async fn sandbox_pay(buyer: &Client, order: &str, action: &str) -> Answer {
    let query = "mutation($input: SandboxPayInput!) { sandboxPay(input: $input) { __typename } }";
    buyer
        .gql(
            query,
            json!({ "input": { "orderId": order, "action": action } }),
        )
        .await
}

/// Asks to cancel.
pub(crate) async fn cancel(buyer: &Client, order: &str) -> Answer {
    let query = "mutation($input: CancelOrderInput!) { cancelOrder(input: $input) { __typename } }";
    buyer
        .gql(query, json!({ "input": { "orderId": order } }))
        .await
}

/// The voucher's number inside the API's ID, for looks into the stores.
fn voucher_id(global: &str) -> VoucherId {
    VoucherId(schema::scalars::parse_id(&ID::from(global), "Voucher", "id").unwrap())
}

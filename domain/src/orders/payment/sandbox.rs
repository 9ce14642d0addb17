//! The built-in payment provider: moves no money, but signs and posts real callbacks to this server's public
//! address, so that everything behind a payment can be tried.

use std::time::Duration;

use rand::Rng;
use serde_json::json;

use super::{PayOutcome, Provider, callback};
use crate::orders::{Error, OrderId, OrderKey, Orders, Status, money};
use crate::users::UserId;
use crate::vouchers::{Money, VoucherId};

/// How long a callback may take.
const POST_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a late payer looks whether the order is closed.
const LATE_POLL: Duration = Duration::from_millis(250);
/// A late payer gives up waiting this long after the payment window.
const LATE_PATIENCE: Duration = Duration::from_secs(60);

/// What the sandbox is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxAction {
    /// One payment.
    Succeed,
    /// The buyer's bank refuses.
    Fail,
    /// The same payment, told twice.
    Repeat,
    /// Two payments with two transaction ids.
    PayTwice,
    /// A payment of another amount.
    WrongAmount,
    /// A payment that arrives once the order is closed.
    Late,
}

/// What the sandbox did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxReport {
    /// The transactions it made.
    pub transaction_ids: Vec<String>,
    /// Callbacks that the server took; a late payment's comes later.
    pub delivered: u32,
}

/// What the sandbox's page shows.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxPage {
    /// The order.
    pub key: OrderKey,
    /// What it costs.
    pub amount: Money,
    /// Where it stands.
    pub status: Status,
}

/// A payment that the sandbox tells of.
struct Payment {
    id: String,
    amount: Money,
    status: &'static str,
}

impl Orders {
    /// Lets the sandbox pay an order, or not.
    ///
    /// # Errors
    /// `NoSandbox`, `NoSuchOrder`; `TryLater` when the callback cannot be posted to the public address.
    pub async fn sandbox_pay(
        &self,
        key: OrderKey,
        action: SandboxAction,
    ) -> Result<SandboxReport, Error> {
        self.require_provider(Provider::Sandbox)?;
        let order = match self.pay(key, Provider::Sandbox).await? {
            PayOutcome::Ready { order, .. } | PayOutcome::NotPayable(order) => order,
        };
        let id = transaction_id();
        let mut report = SandboxReport {
            transaction_ids: vec![id.clone()],
            delivered: 0,
        };
        let payment = Payment {
            id: id.clone(),
            amount: order.price,
            status: "SUCCEEDED",
        };
        match action {
            SandboxAction::Succeed => self.post(&mut report, key, &payment).await?,
            SandboxAction::Fail => {
                let failed = Payment {
                    status: "FAILED",
                    ..payment
                };
                self.post(&mut report, key, &failed).await?;
            }
            SandboxAction::Repeat => {
                self.post(&mut report, key, &payment).await?;
                self.post(&mut report, key, &payment).await?;
            }
            SandboxAction::PayTwice => {
                self.post(&mut report, key, &payment).await?;
                let second = Payment {
                    id: transaction_id(),
                    ..payment
                };
                self.post(&mut report, key, &second).await?;
                report.transaction_ids.push(second.id);
            }
            SandboxAction::WrongAmount => {
                let amount = Money {
                    minor: order.price.minor + 1,
                    ..order.price
                };
                self.post(&mut report, key, &Payment { amount, ..payment })
                    .await?;
            }
            SandboxAction::Late => self.pay_late(key, payment),
        }
        Ok(report)
    }

    /// What the page behind a payment address shows; `None` when there is no such address.
    ///
    /// # Errors
    /// `NoSandbox`, or trouble of a store.
    pub async fn sandbox_page(&self, token: &str) -> Result<Option<SandboxPage>, Error> {
        self.require_provider(Provider::Sandbox)?;
        let Some(intent) = self.intent_by_token(token).await? else {
            return Ok(None);
        };
        let key = OrderKey {
            order: OrderId(intent.order_id),
            voucher: VoucherId(intent.voucher_id),
            buyer: UserId(intent.user_id),
        };
        let status = self.require(key).await?.status;
        Ok(Some(SandboxPage {
            key,
            amount: money(intent.amount_minor, &intent.currency)?,
            status,
        }))
    }

    fn pay_late(&self, key: OrderKey, payment: Payment) {
        let orders = self.clone();
        tokio::spawn(async move {
            let deadline =
                tokio::time::Instant::now() + orders.inner.settings.sale.pay_window + LATE_PATIENCE;
            while tokio::time::Instant::now() < deadline {
                if matches!(orders.get(key).await, Ok(Some(order)) if order.status == Status::Closed)
                {
                    let mut report = SandboxReport {
                        transaction_ids: Vec::new(),
                        delivered: 0,
                    };
                    if let Err(e) = orders.post(&mut report, key, &payment).await {
                        tracing::warn!(error = %e, "the sandbox's late payment was not delivered");
                    }
                    return;
                }
                tokio::time::sleep(LATE_POLL).await;
            }
        });
    }

    /// Signs and posts one callback.
    async fn post(
        &self,
        report: &mut SandboxReport,
        key: OrderKey,
        payment: &Payment,
    ) -> Result<(), Error> {
        let body = json!({
            "transactionId": payment.id,
            "orderId": self.seal(key),
            "amountMinor": payment.amount.minor,
            "currency": payment.amount.currency.to_string(),
            "status": payment.status,
        })
        .to_string();
        let timestamp = (self.inner.infra.clock.now_ms() / 1_000).to_string();
        let secret = self
            .inner
            .settings
            .payments
            .webhook_secrets
            .first()
            .ok_or(Error::NoSandbox)?;
        let url = format!(
            "{}/webhooks/payments/sandbox",
            self.inner.settings.public_url
        );
        let answer = self
            .inner
            .http
            .post(url)
            .timeout(POST_TIMEOUT)
            .header("content-type", "application/json")
            .header("x-lifemate-timestamp", &timestamp)
            .header(
                "x-lifemate-signature",
                callback::sign(secret, &timestamp, body.as_bytes()),
            )
            .body(body)
            .send()
            .await
            .map_err(|e| Error::TryLater(format!("the callback was not delivered: {e}")))?;
        if !answer.status().is_success() {
            return Err(Error::TryLater(format!(
                "the callback was answered {}",
                answer.status()
            )));
        }
        report.delivered += 1;
        Ok(())
    }
}

fn transaction_id() -> String {
    let bytes: [u8; 12] = rand::rng().random();
    format!("sandbox-{}", hex::encode(bytes))
}

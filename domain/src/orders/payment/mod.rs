//! Paying an order: the intent, the provider's callback, and money that has to go back. The provider alone says
//! that something is paid; the buyer's browser never does.

mod buyer;
mod callback;
mod refunds;
mod sandbox;

use entity::payment_intent::{self, IntentStatus};
use rand::Rng;

pub use buyer::RefundOutcome;
pub use callback::{Callback, CallbackError, CallbackOutcome};
pub use sandbox::{SandboxAction, SandboxPage, SandboxReport};

use super::store::IntentBy;
use super::{Error, Order, OrderKey, Orders, Status};

/// Who takes the money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// The built-in provider that moves no money; not offered in production.
    Sandbox,
}

impl Provider {
    /// The provider's name in addresses and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
        }
    }

    /// The provider of a name, `None` when there is no such.
    pub fn named(name: &str) -> Option<Self> {
        (name == Self::Sandbox.name()).then_some(Self::Sandbox)
    }
}

/// What becomes of the wish to pay.
#[derive(Clone, Debug)]
pub enum PayOutcome {
    /// The buyer pays at this address.
    Ready {
        /// The order as it is.
        order: Order,
        /// Where the provider takes the money.
        payment_url: String,
    },
    /// The order cannot be paid: it is paid, closed or rejected.
    NotPayable(Order),
}

impl Orders {
    /// Prepares the payment of an order, also before its row is written. Repeats give the same address.
    ///
    /// # Errors
    /// `NoSuchOrder`; `NoSandbox` where the sandbox is off; trouble of a store.
    pub async fn pay(&self, key: OrderKey, provider: Provider) -> Result<PayOutcome, Error> {
        self.require_provider(provider)?;
        let order = self.require(key).await?;
        if !matches!(order.status, Status::Queued | Status::Unpaid) {
            return Ok(PayOutcome::NotPayable(order));
        }
        let intent = self
            .inner
            .store
            .keep_intent(self.new_intent(&order, provider).await?)
            .await?;
        let payment_url = format!(
            "{}/sandbox/payments/{}",
            self.inner.settings.public_url, intent.token
        );
        Ok(PayOutcome::Ready { order, payment_url })
    }

    pub(super) fn require_provider(&self, provider: Provider) -> Result<(), Error> {
        match provider {
            Provider::Sandbox if self.inner.settings.payments.sandbox => Ok(()),
            Provider::Sandbox => Err(Error::NoSandbox),
        }
    }

    /// An order without a row goes into its intent whole, so that the callback can write it.
    async fn new_intent(
        &self,
        order: &Order,
        provider: Provider,
    ) -> Result<payment_intent::Model, Error> {
        let payload = match order.status {
            Status::Queued => self.outbox_entry(order.key).await?.unwrap_or_default(),
            _ => Vec::new(),
        };
        let token: [u8; 24] = rand::rng().random();
        Ok(payment_intent::Model {
            order_id: order.key.order.0,
            token: hex::encode(token),
            provider: provider.name().to_owned(),
            user_id: order.key.buyer.0,
            voucher_id: order.key.voucher.0,
            amount_minor: order.price.minor,
            currency: order.price.currency.to_string(),
            payload: String::from_utf8(payload).map_err(|e| Error::Corrupt(e.to_string()))?,
            status: IntentStatus::Open,
            created_at: self.inner.infra.clock.now_ms(),
        })
    }

    pub(super) async fn intent_by_token(
        &self,
        token: &str,
    ) -> Result<Option<payment_intent::Model>, Error> {
        Ok(self.inner.store.intent(IntentBy::Token(token)).await?)
    }
}

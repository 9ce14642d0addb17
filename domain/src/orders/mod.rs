//! An order's life, from the click in a flash sale to its last state. Not for vouchers as such: see `vouchers`.
//!
//! | from | to | who |
//! |---|---|---|
//! | – | `UNPAID` | `claim`: an ordinary voucher; one that costs nothing is `PAID` at once |
//! | – | `QUEUED` | `seckill`: Redis holds the unit, there is no row yet |
//! | `QUEUED` | `UNPAID` | `apply`: the row is written |
//! | `QUEUED` | `REJECTED` | `apply` or `status`: the order could not be placed; the reason is kept |
//! | `UNPAID` | `PAID` | `payment` |
//! | `UNPAID` | `CLOSED` | `close`: the deadline, or the buyer |
//! | `PAID` | `USED` | `redeem`: the merchant, by the buyer's code |
//! | `PAID` | `REFUNDING` → `REFUNDED` | `payment`: the buyer gives an unused order back |
//!
//! One sentence to remember: the database judges, Redis gates, the outbox remembers, the bus only carries.

pub mod adjust;
pub mod apply;
pub mod claim;
pub mod close;
pub mod gate;
mod gauges;
pub mod giveback;
pub mod key;
pub mod keys;
mod line;
pub mod live;
pub mod payment;
pub mod queued;
pub mod reconcile;
pub mod recovery;
pub mod redeem;
mod reservations;
mod rounds;
pub mod sale;
pub mod scripts;
pub mod seckill;
pub mod settle;
mod sold;
pub mod status;
pub mod store;
pub mod sweeper;
mod waiters;
pub mod waitlist;
pub mod workers;
pub mod writer;

use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::RedisError;
use sea_orm::DbErr;
use tokio::sync::Notify;

use crate::define_id;
use crate::infra::Infra;
use crate::infra::bus::InProcessBus;
use crate::infra::fault::{Fault, Faulty, RETRY_AFTER, database_fault, redis_fault};
use crate::infra::ids::IdsError;
use crate::infra::leases::Leases;
use crate::notifications::Notifications;
use crate::settings::Settings;
use crate::shops::ShopId;
use crate::users::UserId;
use crate::vouchers::{Currency, Money, VoucherId, Vouchers};

pub use claim::{Claim, ClaimAnswer, ClaimRefusal};
pub use close::CancelOutcome;
pub use entity::order::CloseReason;
pub use entity::order_reject::RejectReason;
pub use entity::refund::RefundStatus;
pub use key::OrderKey;
pub use live::stock::SaleView;
pub use payment::{
    Callback, CallbackError, CallbackOutcome, PayOutcome, Provider, RefundOutcome, SandboxAction,
    SandboxPage, SandboxReport,
};
pub use reconcile::{Check, CheckOutcome};
pub use redeem::RedeemOutcome;
pub use waitlist::Joined;

define_id!(
    /// The number of an order, made before anything is stored. The API shows an `OrderKey` instead.
    OrderId
);

/// The row of an order.
pub type OrderRow = entity::order::Model;
/// The row that says why an order could not be placed.
pub type RejectRow = entity::order_reject::Model;

/// Where an order stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Taken, its row is on the way.
    Queued,
    /// Waiting for payment until its deadline.
    Unpaid,
    /// Paid.
    Paid,
    /// Redeemed.
    Used,
    /// Not paid in time, or cancelled by the buyer.
    Closed,
    /// A refund is on the way.
    Refunding,
    /// Paid back.
    Refunded,
    /// Could not be placed.
    Rejected,
}

/// Money on its way back, or returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    /// How much.
    pub amount: Money,
    /// How far.
    pub status: RefundStatus,
}

/// An order as its buyer sees it. All times are epoch milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Which order, of which voucher, of whom.
    pub key: OrderKey,
    /// The shop; `None` until the row is written.
    pub shop_id: Option<ShopId>,
    /// The how-manieth unit of this buyer in this sale, from 1; `None` while queued.
    pub slot: Option<i32>,
    /// Where it stands.
    pub status: Status,
    /// Why it was rejected; `None` unless it was.
    pub rejection: Option<RejectReason>,
    /// Units; they are paid and redeemed together.
    pub quantity: i32,
    /// What it costs, all units together.
    pub price: Money,
    /// The buyer's own id of the request; empty where it is not known.
    pub request_id: String,
    /// When the unit was taken.
    pub reserved_at_ms: i64,
    /// When the row was written.
    pub created_at_ms: Option<i64>,
    /// Until when it can be paid.
    pub pay_by_ms: Option<i64>,
    /// When it was paid.
    pub paid_at_ms: Option<i64>,
    /// When it was closed.
    pub closed_at_ms: Option<i64>,
    /// Why it was closed.
    pub close_reason: Option<CloseReason>,
    /// When it was redeemed.
    pub used_at_ms: Option<i64>,
    /// The latest refund of money paid for this order, if there is one.
    pub refund: Option<Refund>,
    /// Grows with each change; 0 while queued.
    pub version: i64,
}

impl Order {
    /// Whether nothing will change any more.
    pub fn is_final(&self) -> bool {
        match self.status {
            Status::Used | Status::Refunded | Status::Rejected => true,
            Status::Closed => self
                .refund
                .as_ref()
                .is_none_or(|r| r.status == RefundStatus::Done),
            Status::Queued | Status::Unpaid | Status::Paid | Status::Refunding => false,
        }
    }

    /// An order that has a row.
    pub fn from_row(row: &OrderRow, refund: Option<Refund>) -> Result<Self, Error> {
        Ok(Self {
            key: OrderKey {
                order: OrderId(row.id),
                voucher: VoucherId(row.voucher_id),
                buyer: UserId(row.user_id),
            },
            shop_id: Some(ShopId(row.shop_id)),
            slot: Some(row.slot),
            status: row.status.into(),
            rejection: None,
            quantity: row.quantity,
            price: money(row.price_minor, &row.currency)?,
            request_id: row.request_id.clone(),
            reserved_at_ms: row.reserved_at,
            created_at_ms: Some(row.created_at),
            pay_by_ms: Some(row.pay_by),
            paid_at_ms: row.paid_at,
            closed_at_ms: row.closed_at,
            close_reason: row.close_reason,
            used_at_ms: row.used_at,
            refund,
            version: row.version,
        })
    }

    /// An order that could not be placed.
    pub fn from_reject(row: &RejectRow, refund: Option<Refund>) -> Result<Self, Error> {
        let key = OrderKey {
            order: OrderId(row.order_id),
            voucher: VoucherId(row.voucher_id),
            buyer: UserId(row.user_id),
        };
        let mut order = Self::queued(key, money(row.price_minor, &row.currency)?, row.reserved_at);
        order.status = Status::Rejected;
        order.rejection = Some(row.reason);
        order.request_id.clone_from(&row.request_id);
        order.refund = refund;
        order.version = REJECTED_VERSION;
        Ok(order)
    }

    /// An order of which only its key and price are known.
    pub fn queued(key: OrderKey, price: Money, reserved_at_ms: i64) -> Self {
        Self {
            key,
            shop_id: None,
            slot: None,
            status: Status::Queued,
            rejection: None,
            quantity: 1,
            price,
            request_id: String::new(),
            reserved_at_ms,
            created_at_ms: None,
            pay_by_ms: None,
            paid_at_ms: None,
            closed_at_ms: None,
            close_reason: None,
            used_at_ms: None,
            refund: None,
            version: 0,
        }
    }
}

/// A rejected order has no row whose version could grow; it changes once.
const REJECTED_VERSION: i64 = 1;

impl From<entity::order::OrderStatus> for Status {
    fn from(status: entity::order::OrderStatus) -> Self {
        use entity::order::OrderStatus as Row;
        match status {
            Row::Unpaid => Self::Unpaid,
            Row::Paid => Self::Paid,
            Row::Used => Self::Used,
            Row::Closed => Self::Closed,
            Row::Refunding => Self::Refunding,
            Row::Refunded => Self::Refunded,
        }
    }
}

/// The client's own id of a request: a repeat with the same id means the same order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// Longest id taken, in characters.
    pub const MAX_CHARS: usize = 64;

    /// Takes 1 to 64 letters, digits, `_`, `.`, `:` or `-`.
    ///
    /// # Errors
    /// `BadRequestId` for anything else.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let fits = (1..=Self::MAX_CHARS).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b));
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::BadRequestId)
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a buyer hears.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The unit is his.
    Accepted(Order),
    /// It is not known yet whether he has it; the order tells.
    Pending(OrderKey),
    /// He has all units he may have; this order is one.
    AlreadyOrdered(Order),
    /// Nothing is left.
    SoldOut,
    /// He has used up his attempts in this sale.
    NoAttemptsLeft,
    /// The sale has not begun.
    NotStarted {
        /// When it begins, in epoch milliseconds.
        starts_at_ms: i64,
    },
    /// The sale is over.
    Ended,
    /// The sale is paused.
    Paused,
    /// He clicks too fast.
    RateLimited {
        /// When a click is taken again.
        retry_after: Duration,
    },
    /// The sale cannot answer now; nothing was taken.
    TryLater {
        /// When to try again.
        retry_after: Duration,
    },
}

/// What goes wrong with orders beyond the answers a buyer expects.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such order, or somebody else's.
    #[error("no such order")]
    NoSuchOrder,
    /// No such voucher, or one that is not in a flash sale.
    #[error("the voucher is not in a flash sale")]
    NoSuchSale(VoucherId),
    /// No such voucher, or one that is sold in a flash sale.
    #[error("this is no ordinary voucher")]
    NoSuchOffer(VoucherId),
    /// Too few or too many units at once.
    #[error("the quantity must be between 1 and {}", claim::QUANTITY_MAX)]
    BadQuantity,
    /// A request id that stands for another request.
    #[error("this client request id was used for another voucher or quantity")]
    RequestReused,
    /// The client's request id is malformed.
    #[error("a client request id has 1 to 64 letters, digits, '_', '.', ':' or '-'")]
    BadRequestId,
    /// A new total below what is taken, or out of bounds.
    #[error("the total must be between {taken}, which are taken, and {most}")]
    BadTotal {
        /// Units taken.
        taken: i64,
        /// The most a sale may have.
        most: i64,
    },
    /// The sale is in a state in which this cannot be done.
    #[error("the sale is {state}, so this cannot be done")]
    WrongState {
        /// Which.
        voucher: VoucherId,
        /// Its state in words.
        state: &'static str,
    },
    /// The viewer may not.
    #[error("only the shop's owner or an administrator may do this")]
    Forbidden,
    /// The sandbox provider is switched off.
    #[error("the payment sandbox is not offered here")]
    NoSandbox,
    /// The sale is being recovered, or Redis is not fit.
    #[error("the sale cannot be reached now: {0}")]
    TryLater(String),
    /// Something stored cannot be read.
    #[error("order data cannot be read: {0}")]
    Corrupt(String),
    /// The vouchers' own trouble.
    #[error(transparent)]
    Vouchers(#[from] crate::vouchers::Error),
    /// A waiter could not be told.
    #[error(transparent)]
    Notifications(#[from] crate::notifications::Error),
    /// No order id could be made.
    #[error(transparent)]
    Ids(#[from] IdsError),
    /// The database's own.
    #[error("the database failed: {0}")]
    Database(#[from] DbErr),
    /// Redis' own.
    #[error("redis failed: {0}")]
    Redis(#[from] RedisError),
    /// A script's answer.
    #[error(transparent)]
    Script(#[from] scripts::ScriptError),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::NoSuchOrder | Self::NoSuchSale(_) | Self::NoSuchOffer(_) => Fault::NotFound,
            Self::BadQuantity => Fault::BadInput {
                argument: "input.quantity",
            },
            Self::BadRequestId | Self::RequestReused => Fault::BadInput {
                argument: "input.clientRequestId",
            },
            Self::BadTotal { .. } => Fault::BadInput {
                argument: "input.total",
            },
            Self::WrongState { .. } => Fault::BadInput {
                argument: "input.voucherId",
            },
            Self::Forbidden | Self::NoSandbox => Fault::Forbidden,
            Self::TryLater(_) => Fault::TryLater {
                retry_after: RETRY_AFTER,
            },
            Self::Corrupt(_) => Fault::Internal,
            Self::Vouchers(e) => e.fault(),
            Self::Notifications(e) => e.fault(),
            Self::Ids(_) => Fault::Unavailable,
            Self::Database(e) => database_fault(e),
            Self::Redis(e) | Self::Script(scripts::ScriptError::Redis(e)) => redis_fault(e),
            Self::Script(scripts::ScriptError::NoScript) => Fault::TryLater {
                retry_after: RETRY_AFTER,
            },
            Self::Script(_) => Fault::Internal,
        }
    }
}

pub(crate) struct Inner {
    infra: Infra,
    settings: Settings,
    vouchers: Vouchers,
    notifications: Notifications,
    waiters: waiters::Waiters,
    store: Arc<dyn store::OrderStore>,
    gate: gate::Gate,
    live: live::Live,
    seckill: reservations::Reservations,
    leases: Leases,
    /// Posts the sandbox's callbacks.
    http: reqwest::Client,
    /// Accepted orders whose send failed, on their way to this node's own writer.
    unsent: InProcessBus,
    /// Somebody saw a sale that needs recovery.
    recovery_wanted: Notify,
    /// Units wait to be given back.
    giveback_due: Notify,
}

/// Orders and flash sales. Cheap to clone.
#[derive(Clone)]
pub struct Orders {
    inner: Arc<Inner>,
}

impl Orders {
    /// Makes the concept; workers run only when asked.
    pub fn new(
        infra: Infra,
        settings: Settings,
        vouchers: Vouchers,
        notifications: Notifications,
    ) -> Self {
        gauges::describe();
        let store = Arc::new(store::SqlStore::new(
            infra.db.clone(),
            infra.clock.clone(),
            settings.sale.clone(),
        ));
        let inner = Inner {
            gate: gate::Gate::new(&settings.sale),
            live: live::Live::default(),
            leases: Leases::new(
                infra.db.clone(),
                infra.clock.clone(),
                infra.ids.owner().to_owned(),
            ),
            http: reqwest::Client::new(),
            unsent: InProcessBus::default(),
            recovery_wanted: Notify::new(),
            giveback_due: Notify::new(),
            seckill: reservations::Reservations::default(),
            waiters: waiters::Waiters::new(infra.clone()),
            infra,
            settings,
            vouchers,
            notifications,
            store,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The store of orders, for whoever tests it.
    pub fn store(&self) -> &Arc<dyn store::OrderStore> {
        &self.inner.store
    }
}

pub(crate) fn money(minor: i64, currency: &str) -> Result<Money, Error> {
    let currency = Currency::parse(currency).map_err(|e| Error::Corrupt(e.to_string()))?;
    Ok(Money { minor, currency })
}

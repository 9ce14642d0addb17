//! What the sale's scripts are given and what they answer. How they are called is beside this.

use crate::orders::OrderId;
use crate::users::UserId;

/// One buyer of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buyer {
    /// The id his order will have.
    pub order_id: OrderId,
    /// Who he is.
    pub user_id: UserId,
    /// His client's id of the request, of the characters of `RequestId`.
    pub request_id: String,
    /// The trace, of the same characters.
    pub trace_id: String,
    /// A waiter who was called takes a unit that is kept for waiters.
    pub called_waiter: bool,
}

/// What `reserve` answers to one buyer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// The unit is his, now or by an earlier arrival of this very call.
    Ok {
        /// The order.
        order_id: OrderId,
        /// Its slot.
        slot: i32,
        /// When it was taken, in epoch milliseconds.
        reserved_at: i64,
        /// In which epoch.
        epoch: i64,
    },
    /// He has an order.
    Already {
        /// Which.
        order_id: OrderId,
        /// Whether this same request got it.
        same_request: bool,
    },
    /// The order id is another user's.
    IdTaken,
    /// The order id was said to be nowhere.
    Dead,
    /// His attempts are used up.
    NoAttempts,
    /// Nothing is left.
    SoldOut {
        /// In which epoch.
        epoch: i64,
        /// How many units were ever taken.
        taken: i64,
    },
    /// The sale is paused.
    Paused,
    /// It has not begun.
    NotStarted {
        /// When it begins, in epoch milliseconds.
        begin_ms: i64,
    },
    /// It is over.
    Ended {
        /// When it ended, in epoch milliseconds.
        end_ms: i64,
    },
    /// Redis does not hold the sale, or it is being recovered.
    NotReady,
    /// Its books in Redis do not add up.
    Damaged,
}

/// What `release` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The unit is not, or no longer, taken by the order.
    Done {
        /// Whether it came back by this call.
        now: bool,
        /// The epoch under which that may be recorded.
        epoch: i64,
    },
    /// Nothing was done: ask again later.
    NotReady,
}

/// What `forget` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// The order holds a unit.
    Queued,
    /// It is nowhere in Redis, and will never be placed.
    Dead {
        /// The epoch under which that may be recorded.
        epoch: i64,
    },
    /// Redis does not hold the sale, or it is being recovered.
    NotReady,
    /// Its books in Redis do not add up.
    Damaged,
}

/// What `amend` brings; `None` stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amendment {
    /// The epoch that the database is in.
    pub epoch: i64,
    /// Whether the sale is paused.
    pub paused: Option<bool>,
    /// Units kept for waiters.
    pub waiting: Option<i64>,
    /// The end, in epoch milliseconds.
    pub end_ms: Option<i64>,
}

/// What `amend` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amended {
    /// It is so.
    Done,
    /// Redis does not hold the sale.
    NotReady,
    /// Redis is in another epoch.
    OtherEpoch,
}

/// What `adjust` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjusted {
    /// The total is set, now or by an earlier arrival of this version.
    Done {
        /// The epoch under which that may be recorded.
        epoch: i64,
    },
    /// A newer version was here.
    Older,
    /// More units are held than the total would allow.
    Below {
        /// Units held.
        held: i64,
    },
    /// Redis does not hold the sale, or it is being recovered.
    NotReady,
    /// Its books in Redis do not add up.
    Damaged,
}

/// What `install` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// The sale is in place.
    Done,
    /// Another recovery is on, or none.
    Lost,
    /// A temporary key does not hold what it was told.
    Incomplete,
    /// More orders than units.
    Oversold,
}

/// The fields of `meta`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleMeta {
    /// First millisecond of the window.
    pub begin_ms: i64,
    /// First millisecond after it.
    pub end_ms: i64,
    /// Units for sale.
    pub total: i64,
    /// Units one user may hold.
    pub limit: i32,
    /// Orders one user may place.
    pub max_attempts: i32,
    /// Price, in the minor unit.
    pub price_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// The epoch that begins.
    pub epoch: i64,
    /// Version of the last adjustment.
    pub version: i64,
    /// Whether the sale is paused.
    pub paused: bool,
    /// Units kept for waiters.
    pub waiting: i64,
    /// Units taken so far.
    pub taken: i64,
}

/// Fields and values of the hashes that `install` puts in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// `user:slot` → order id.
    pub buyers: Vec<(String, String)>,
    /// Order id → `user:slot`.
    pub orders: Vec<(String, String)>,
    /// User → attempts.
    pub attempts: Vec<(String, String)>,
}

impl Fields {
    /// How many entries each has: buyers, orders, attempts.
    pub fn counts(&self) -> [usize; 3] {
        [self.buyers.len(), self.orders.len(), self.attempts.len()]
    }
}

/// A sale's keys as seen in one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Epoch of `meta`; `None` when there is no `meta`.
    pub epoch: Option<i64>,
    /// Units for sale.
    pub total: Option<i64>,
    /// Version of the last adjustment.
    pub version: Option<i64>,
    /// Whether the sale is paused.
    pub paused: bool,
    /// Units kept for waiters.
    pub waiting: Option<i64>,
    /// First millisecond of the window.
    pub begin_ms: Option<i64>,
    /// First millisecond after it.
    pub end_ms: Option<i64>,
    /// Units ever taken.
    pub taken: Option<i64>,
    /// Units left.
    pub stock: Option<i64>,
    /// Whether a recovery is on.
    pub recovering: bool,
    /// Entries of `buyers`.
    pub buyers: i64,
    /// Entries of `orders`.
    pub orders: i64,
    /// Entries of `outbox`, the sentinel with them.
    pub outbox: i64,
    /// Entries of `attempts`, the sentinel with them.
    pub attempts: i64,
    /// Ids that will never be placed.
    pub dead: i64,
    /// Sentinel of `outbox`.
    pub outbox_epoch: Option<i64>,
    /// Sentinel of `attempts`.
    pub attempts_epoch: Option<i64>,
    /// Whether a key is of another kind than it must be.
    pub foreign: bool,
    /// Whether buyers are answered that the books are damaged.
    pub damaged: bool,
}

impl Inspection {
    /// Whether Redis does not hold the sale, or it is being recovered.
    pub fn not_ready(&self) -> bool {
        self.epoch.is_none() || self.recovering
    }

    /// Whether the books do not add up, or a key is missing or strange, as `reserve` judges it.
    pub fn is_damaged(&self) -> bool {
        self.foreign || self.damaged
    }

    /// Invariant I5: units left and orders make the total, and every order has its buyer.
    pub fn adds_up(&self) -> bool {
        self.buyers == self.orders
            && self
                .stock
                .zip(self.total)
                .is_some_and(|(stock, total)| stock + self.orders == total)
    }

    /// Orders whose row is not known to be committed.
    pub fn queued(&self) -> i64 {
        self.outbox - i64::from(self.outbox_epoch.is_some())
    }
}

/// What `install` puts in place.
#[derive(Clone, Copy, Debug)]
pub struct Installation<'a> {
    /// The token of the recovery, as in the names of the temporary keys.
    pub token: &'a str,
    /// Entries of the temporary buyers, orders and attempts.
    pub counts: [usize; 3],
    /// The sale itself.
    pub meta: &'a SaleMeta,
}

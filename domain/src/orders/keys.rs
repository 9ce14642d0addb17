//! The names of a sale's keys. All of one sale carry its hash tag, so that its scripts work in a cluster; none has
//! a time to live until the sale is settled.

use crate::vouchers::VoucherId;

/// The keys of one sale: `<deployment>:{v:<voucher>}:<part>`.
#[derive(Clone, Debug)]
pub struct SaleKeys {
    prefix: String,
}

impl SaleKeys {
    /// The keys of a voucher's sale.
    pub fn new(deployment: &str, voucher: VoucherId) -> Self {
        Self {
            prefix: format!("{deployment}:{{v:{voucher}}}"),
        }
    }

    /// Hash: what the sale is, as the database says. Written by `install`, `amend`, `adjust`, `reserve`.
    pub fn meta(&self) -> String {
        self.part("meta")
    }

    /// String: units left. Written by `install`, `reserve`, `release`, `adjust`.
    pub fn stock(&self) -> String {
        self.part("stock")
    }

    /// Hash `user:slot` → order id. Written by `install`, `reserve`, `release`.
    pub fn buyers(&self) -> String {
        self.part("buyers")
    }

    /// Hash order id → `user:slot`; presence is the token of a giveback. Written by `install`, `reserve`, `release`.
    pub fn orders(&self) -> String {
        self.part("orders")
    }

    /// Hash order id → queued order, until its row is committed; one field is the sentinel. Written by `install`,
    /// `reserve`, `settle`.
    pub fn outbox(&self) -> String {
        self.part("outbox")
    }

    /// Hash user → attempts; one field is the sentinel. Written by `install`, `reserve`, `release`.
    pub fn attempts(&self) -> String {
        self.part("attempts")
    }

    /// Set: order ids that were said to be nowhere. Written by `forget`, `release`.
    pub fn dead(&self) -> String {
        self.part("dead")
    }

    /// String: token of the recovery that is on. Written by `begin_recovery`, `install`.
    pub fn recovery(&self) -> String {
        self.part("recovery")
    }

    /// Hash: what a recovery fills before it takes the place of a live key; runs out by itself when the recoverer dies.
    /// Written by `fill_temporary`, taken by `install`.
    pub fn temporary(&self, part: &str, token: &str) -> String {
        self.part(&format!("new:{token}:{part}"))
    }

    /// The keys as the scripts with the common head take them.
    pub fn all(&self) -> [String; 8] {
        [
            self.meta(),
            self.stock(),
            self.buyers(),
            self.orders(),
            self.outbox(),
            self.attempts(),
            self.dead(),
            self.recovery(),
        ]
    }

    fn part(&self, part: &str) -> String {
        format!("{}:{part}", self.prefix)
    }
}

//! Changing the total of a sale that runs: one change at a time, each with a version, driven to its end whoever dies.
//! Raising goes to the database first and lowering to Redis first, so that Redis never sells what the database
//! would refuse.

use super::rounds::Round;
use super::scripts::{self, Adjusted};
use super::{Error, Orders};
use crate::users::Session;
use crate::vouchers::{Sale, TOTAL_MAX, VoucherId};

/// How often one call takes up the change again; the gauge goes on after it.
const STEPS: usize = 8;

/// What one step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The total is what was wished.
    Done,
    /// More units are held; the old total is being put back.
    Refused { held: i64 },
    /// The epoch changed meanwhile: again.
    Again,
    /// Redis cannot say now.
    Later,
}

impl Orders {
    /// Sets the total of an open sale.
    ///
    /// # Errors
    /// `BadTotal` when it is out of bounds or below what is taken: nothing has changed then. `TryLater` while another
    /// change is on, or when Redis cannot be asked: the change is then made as soon as it can. `WrongState`.
    pub async fn adjust_stock(
        &self,
        session: &Session,
        voucher: VoucherId,
        total: i64,
    ) -> Result<Sale, Error> {
        let before = self.owned_sale(session, voucher).await?;
        if !(1..=TOTAL_MAX).contains(&total) {
            return Err(Error::BadTotal {
                taken: before.sold.max(1),
                most: TOTAL_MAX,
            });
        }
        if !self.inner.store.set_target(voucher, total).await? {
            let busy = before.adjust_target.is_some();
            return Err(if busy {
                Error::TryLater("its total is being changed".to_owned())
            } else {
                self.wrong_state(&before)
            });
        }
        let mut refused = None;
        for _ in 0..STEPS {
            let sale = self.require_sale(voucher).await?;
            match self.adjust_step(&sale).await? {
                Step::Done => {
                    self.tell_reopened(voucher).await;
                    return match refused {
                        None => self.require_sale(voucher).await,
                        Some(taken) => Err(Error::BadTotal {
                            taken,
                            most: TOTAL_MAX,
                        }),
                    };
                }
                Step::Refused { held } => refused = Some(held),
                Step::Again => {}
                Step::Later => break,
            }
        }
        Err(Error::TryLater(
            "the new total is taken up as soon as the sale can be reached".to_owned(),
        ))
    }

    /// Goes on with changes that were left in the middle.
    ///
    /// # Errors
    /// When a store cannot be asked.
    pub async fn repeat_adjustments(&self) -> Result<(), Error> {
        let mut round = Round::of("changing totals");
        for sale in self.inner.store.open_sales().await? {
            if sale.adjust_target.is_some() {
                round.note(sale.voucher_id, self.repeat_adjustment(&sale).await)?;
            }
        }
        round.end().map(|_| ())
    }

    async fn repeat_adjustment(&self, sale: &Sale) -> Result<usize, Error> {
        let done = self.adjust_step(sale).await? == Step::Done;
        if done {
            self.tell_reopened(VoucherId(sale.voucher_id)).await;
        }
        Ok(usize::from(done))
    }

    async fn adjust_step(&self, sale: &Sale) -> Result<Step, Error> {
        let (voucher, version) = (VoucherId(sale.voucher_id), sale.adjust_version);
        let Some(target) = sale.adjust_target else {
            return Ok(Step::Done);
        };
        let raising = target >= sale.total;
        if raising {
            if !self.inner.store.write_total(voucher, version, None).await? {
                return Ok(Step::Again);
            }
            self.drop_card(voucher).await;
        }
        let keys = self.keys(voucher);
        let adjusted = self.on_line(|mut conn| {
            let keys = &keys;
            async move { scripts::adjust(&mut conn, self.scripts(), keys, target, version).await }
        });
        match adjusted.await? {
            Adjusted::Done { epoch } => {
                let written = raising
                    || self
                        .inner
                        .store
                        .write_total(voucher, version, Some(epoch))
                        .await?;
                if !raising {
                    self.drop_card(voucher).await;
                }
                let ended = written && self.inner.store.end_target(voucher, version, epoch).await?;
                Ok(if ended { Step::Done } else { Step::Again })
            }
            Adjusted::Below { held } => {
                // A refusal is a change of its own, which sets Redis to what the database has.
                self.inner.store.refuse_target(voucher, version).await?;
                Ok(Step::Refused { held })
            }
            Adjusted::Older => Ok(Step::Again),
            Adjusted::NotReady | Adjusted::Damaged => {
                self.inner.recovery_wanted.notify_one();
                Ok(Step::Later)
            }
        }
    }
}

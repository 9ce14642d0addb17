//! What operators see of orders: a sentence for each metric, and the gauges that nobody's work moves by itself.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

use super::rounds::Round;
use super::{Error, Orders};
use crate::infra::bus::Bus;
use crate::vouchers::VoucherId;

impl Orders {
    /// Measures how far the writers are behind.
    ///
    /// # Errors
    /// When a store cannot be asked; the gauges then keep their last value.
    pub async fn measure(&self) -> Result<(), Error> {
        let (mut waiting, mut round) = (0, Round::of("measuring sales"));
        for sale in self.inner.store.open_sales().await? {
            let seen = self.inspect(VoucherId(sale.voucher_id)).await;
            waiting += seen.as_ref().map_or(0, |seen| seen.queued());
            round.note(sale.voucher_id, seen.map(|_| 1).map_err(Error::from))?;
        }
        metrics::gauge!("lifemate_seckill_outbox_orders").set(as_gauge(waiting));
        round.end()?;
        if let Bus::Kafka(bus) = &self.inner.infra.bus
            && let Ok(behind) = bus.lag().await
        {
            metrics::gauge!("lifemate_seckill_lag_messages").set(as_gauge(behind));
        }
        Ok(())
    }
}

/// Says what each metric of orders means.
pub(super) fn describe() {
    describe_counter!(
        "lifemate_seckill_answers_total",
        "Clicks in flash sales, by what they were answered"
    );
    describe_histogram!(
        "lifemate_seckill_batch_size",
        "Buyers that went to Redis in one call"
    );
    describe_counter!(
        "lifemate_seckill_applied_total",
        "Queued orders that reached the database, by what became of them"
    );
    describe_counter!(
        "lifemate_seckill_write_failures_total",
        "Batches that the database did not take at the first try"
    );
    describe_counter!(
        "lifemate_seckill_send_failures_total",
        "Orders that Kafka did not acknowledge, written by their node"
    );
    describe_counter!(
        "lifemate_seckill_swept_total",
        "Orders that the sweeper brought from an outbox"
    );
    describe_counter!(
        "lifemate_seckill_dead_letters_total",
        "Queued orders that nobody can use: somebody must look"
    );
    describe_counter!(
        "lifemate_seckill_damaged_total",
        "Sales whose books in Redis did not add up"
    );
    describe_counter!(
        "lifemate_seckill_recoveries_total",
        "Sales installed in Redis, openings included"
    );
    describe_gauge!(
        "lifemate_seckill_outbox_orders",
        "Accepted orders whose row is not known to be committed"
    );
    describe_gauge!(
        "lifemate_seckill_lag_messages",
        "Messages between the writers and the end of the topic"
    );
    describe_counter!("lifemate_orders_closed_total", "Unpaid orders closed");
    describe_counter!(
        "lifemate_orders_givebacks_total",
        "Units given back to Redis"
    );
    describe_counter!(
        "lifemate_payments_recorded_total",
        "Payments that providers told of, by what became of them"
    );
    describe_counter!(
        "lifemate_payments_refunded_total",
        "Payments that went back"
    );
    describe_counter!(
        "lifemate_worker_runs_total",
        Unit::Count,
        "Runs of background workers, by worker and outcome"
    );
}

fn as_gauge(count: i64) -> f64 {
    f64::from(i32::try_from(count).unwrap_or(i32::MAX))
}

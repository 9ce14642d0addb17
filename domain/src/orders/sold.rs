//! Counts at shops what was paid there. May run anywhere, twice: the notes are taken in one transaction.

use super::{Error, Orders};

/// Notes added up in one transaction.
const BATCH: u64 = 100;

impl Orders {
    /// Adds up what was paid and given back since the last time; returns how many orders it were.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn count_sold(&self) -> Result<usize, Error> {
        let (notes, shops) = self.inner.store.count_sold(BATCH).await?;
        for (shop, version) in shops {
            self.inner.vouchers.shops().was_written(shop, version).await;
        }
        Ok(notes)
    }
}

//! The bus of one process: a bounded channel. What does not fit is left to the sweeper.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, mpsc};

use super::{Delivery, SendError};

/// Payloads that may wait; about 20 MB at the most. More than a writer takes in a few seconds.
const CAPACITY: usize = 65_536;

/// A channel inside the process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct InProcessBus {
    sender: mpsc::Sender<Vec<u8>>,
    receiver: Arc<Mutex<mpsc::Receiver<Vec<u8>>>>,
    read: Arc<AtomicBool>,
}

impl Default for InProcessBus {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        Self {
            sender,
            receiver: Arc::new(Mutex::new(receiver)),
            read: Arc::new(AtomicBool::new(false)),
        }
    }
}

impl InProcessBus {
    pub(super) fn send(&self, payload: Vec<u8>) -> Result<(), SendError> {
        if !self.read.load(Ordering::Acquire) {
            return Err(SendError::Full);
        }
        self.put(payload);
        Ok(())
    }

    /// Queues a payload whether or not somebody reads; one that does not fit is dropped.
    pub fn put(&self, payload: Vec<u8>) {
        // Whoever sends keeps the payload elsewhere: a dropped one is found there.
        let _ = self.sender.try_send(payload);
    }

    /// Whether a writer of this process reads the bus; without one, payloads wait for the sweeper at once.
    pub fn set_read(&self, read: bool) {
        self.read.store(read, Ordering::Release);
    }

    /// What is queued, up to `most` payloads; waits for the first. Safe to drop while it waits.
    pub async fn next_batch(&self, most: usize) -> Vec<Delivery> {
        let mut payloads = Vec::new();
        self.receiver
            .lock()
            .await
            .recv_many(&mut payloads, most)
            .await;
        payloads
            .into_iter()
            .map(|payload| Delivery {
                payload,
                position: None,
            })
            .collect()
    }

    /// What is queued now, up to `most` payloads.
    pub async fn rest(&self, most: usize) -> Vec<Delivery> {
        let mut receiver = self.receiver.lock().await;
        let mut payloads = Vec::new();
        while payloads.len() < most
            && let Ok(payload) = receiver.try_recv()
        {
            payloads.push(Delivery {
                payload,
                position: None,
            });
        }
        payloads
    }
}

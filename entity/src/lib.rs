//! The tables, one file each, and their column enums. Knows no rule: see `domain`.

pub mod chat_box;
pub mod conversation;
pub mod conversation_member;
pub mod dead_letter;
pub mod follow;
pub mod follow_count;
pub mod giveback;
pub mod image;
pub mod lease;
pub mod message;
pub mod notification;
pub mod notification_box;
pub mod order;
pub mod order_reject;
pub mod payment;
pub mod payment_intent;
pub mod refund;
pub mod sale;
pub mod shop;
pub mod shop_type;
pub mod stock_entry;
pub mod switch;
pub mod user;
pub mod voucher;
pub mod worker_id;
pub mod writer_progress;

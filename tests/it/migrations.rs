//! The tables as the steps leave them, on each database: up and down meet, each entity fits its table, and what the
//! constraints are there to refuse is refused. Not what the product does with the tables: see `stores`.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::resume_unwind;
use std::path::PathBuf;

use entity::daily_statistics;
use entity::dead_letter::DeadLetterSource;
use entity::giveback::{GivebackKind, GivebackStatus};
use entity::image::ImageState;
use entity::notification::NotificationKind;
use entity::order::{CloseReason, OrderStatus};
use entity::order_reject::RejectReason;
use entity::payment::PaymentOutcome;
use entity::payment_intent::IntentStatus;
use entity::refund::{RefundReason, RefundStatus};
use entity::sale::SaleStage;
use entity::shop::ShopStatus;
use entity::sign_in;
use entity::stock_entry::StockReason;
use entity::user::{Gender, Role};
use entity::voucher::{VoucherKind, VoucherStatus};
use entity::waiter::{self, WaiterStatus};
use entity::{
    blog, blog_fanout, blog_like, chat_box, comment, conversation, conversation_member,
    dead_letter, follow, follow_count, giveback, image, lease, message, notification,
    notification_box, order, order_reject, payment, payment_intent, refund, sale, shop, shop_type,
    stock_entry, switch, user, voucher, worker_id, writer_progress,
};
use entity::{reminder, waitlist};
use migration::{Migrator, MigratorTrait};
use sea_orm::entity::prelude::Date;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, Database, DatabaseConnection, DbBackend, DbErr,
    EntityTrait, IntoActiveModel, ModelTrait, QueryFilter, SqlErr, Statement,
};

/// Larger than what a double holds exactly, as the ids are that the server makes.
const BIG: i64 = (1 << 62) + 1;
/// Needs four bytes a character, where the table takes them.
const WORDS: &str = "Phở 老字号 🍜";
/// What readers and `domain` know by name.
const NAMES: &[&str] = &[
    "uq_users_phone",
    "uq_shop_types_code",
    "uq_shops_source",
    "uq_images_object_key",
    "ix_images_state",
    "ix_shops_type",
    "ix_shops_score",
    "ix_shops_sold",
    "ix_shops_owner",
    "ix_vouchers_shop",
    "ck_sales_sold",
    "ix_sales_stage",
    "ix_sales_begin",
    "ix_sales_shop",
    "uq_orders_unit",
    "ix_orders_due",
    "ix_orders_user",
    "ix_orders_voucher",
    "ix_orders_voucher_id",
    "ix_dead_letters_reference",
    "ix_orders_redeem",
    "ck_offers_sold",
    "uq_reviews_once",
    "ix_reviews_shop",
    "ix_reviews_order",
    "ix_order_rejects_user",
    "ix_order_rejects_voucher",
    "ix_givebacks_due",
    "ix_givebacks_voucher",
    "ix_stock_ledger_voucher",
    "uq_payment_intents_token",
    "ix_payment_intents_voucher",
    "uq_payments_transaction",
    "ix_payments_order",
    "ix_payments_outcome",
    "uq_waiters_user",
    "uq_waiters_place",
    "ix_reminders_told",
    "uq_conversations_pair",
    "ix_conversation_members_user",
    "uq_messages_seq",
    "uq_messages_request",
    "uq_messages_sender_feed",
    "uq_messages_recipient_feed",
    "uq_notifications_seq",
    "uq_notifications_once",
    "uq_refunds_transaction",
    "ix_refunds_due",
    "ix_refunds_order",
    "uq_follows_pair",
    "ix_follows_follower",
    "ix_follows_followee",
    "ix_follows_seq",
    "ix_feed_outboxes_created",
    "ix_blog_fanouts_created",
    "ix_blogs_author",
    "ix_blogs_shop",
    "ix_blogs_hot",
    "uq_blogs_request",
    "uq_blog_likes_seq",
    "ix_comments_blog",
    "uq_comments_request",
    "ix_blog_fanouts_due",
];

/// A database of a test's own, empty, gone at the end.
struct Home {
    backend: DbBackend,
    name: String,
}

impl Home {
    async fn make(backend: DbBackend) -> Self {
        let home = Self {
            backend,
            name: format!("m{:016x}", RandomState::new().build_hasher().finish()),
        };
        let name = &home.name;
        match backend {
            DbBackend::Sqlite => std::fs::create_dir(home.folder()).unwrap(),
            // Too narrow on purpose: the tables say their own characters, whatever the database's are.
            DbBackend::MySql => {
                let statement = format!("CREATE DATABASE {name} CHARACTER SET latin1");
                home.on_server(&statement).await;
            }
            _ => home.on_server(&format!("CREATE DATABASE {name}")).await,
        }
        home
    }

    async fn remove(&self) {
        let name = &self.name;
        match self.backend {
            DbBackend::Sqlite => std::fs::remove_dir_all(self.folder()).unwrap(),
            DbBackend::MySql => self.on_server(&format!("DROP DATABASE {name}")).await,
            _ => {
                let statement = format!("DROP DATABASE {name} WITH (FORCE)");
                self.on_server(&statement).await;
            }
        }
    }

    fn folder(&self) -> PathBuf {
        std::env::temp_dir().join(&self.name)
    }

    fn url(&self, database: &str) -> String {
        let variable = match self.backend {
            DbBackend::Sqlite => {
                return format!("sqlite://{}/test.db?mode=rwc", self.folder().display());
            }
            DbBackend::MySql => "LM_TEST_MARIADB_URL",
            _ => "LM_TEST_POSTGRES_URL",
        };
        let server = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set"));
        format!("{}/{database}", server.trim_end_matches('/'))
    }

    async fn on_server(&self, statement: &str) {
        let admin = match self.backend {
            DbBackend::MySql => "mysql",
            _ => "postgres",
        };
        let conn = Database::connect(self.url(admin)).await.unwrap();
        conn.execute_unprepared(statement).await.unwrap();
        conn.close().await.unwrap();
    }
}

/// Tries a claim on an empty database, and removes that whether it holds or not.
async fn try_on<F>(backend: DbBackend, claim: impl FnOnce(DatabaseConnection) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let home = Home::make(backend).await;
    let conn = Database::connect(home.url(&home.name)).await.unwrap();
    let ended = tokio::spawn(claim(conn.clone())).await;
    conn.close().await.unwrap();
    home.remove().await;
    if let Err(failure) = ended {
        resume_unwind(failure.into_panic());
    }
}

async fn migrate(conn: &DatabaseConnection) {
    Migrator::up(conn, None).await.unwrap();
}

// ---- up and down ----------------------------------------------------------------------------------------------

/// All that the database itself says of the tables: columns, indexes, constraints.
async fn description(conn: &DatabaseConnection) -> BTreeSet<String> {
    let questions: &[&str] = match conn.get_database_backend() {
        DbBackend::Sqlite => &[
            "SELECT type || ' ' || name || ' ' || sql AS fact FROM sqlite_master WHERE sql IS NOT NULL \
             AND name NOT LIKE 'sqlite_%' AND tbl_name <> 'seaql_migrations'",
        ],
        DbBackend::MySql => &[
            "SELECT CONCAT_WS(' ', table_name, engine, table_collation) AS fact \
             FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND table_name <> 'seaql_migrations'",
            "SELECT CONCAT_WS(' ', table_name, ordinal_position, column_name, column_type, is_nullable, extra, \
             collation_name) AS fact FROM information_schema.columns \
             WHERE table_schema = DATABASE() AND table_name <> 'seaql_migrations'",
            "SELECT CONCAT_WS(' ', table_name, index_name, non_unique, seq_in_index, column_name) AS fact \
             FROM information_schema.statistics \
             WHERE table_schema = DATABASE() AND table_name <> 'seaql_migrations'",
            "SELECT CONCAT_WS(' ', constraint_name, check_clause) AS fact \
             FROM information_schema.check_constraints WHERE constraint_schema = DATABASE()",
        ],
        _ => &[
            "SELECT concat_ws(' ', table_name, ordinal_position, column_name, data_type, \
             character_maximum_length, is_nullable, column_default) AS fact FROM information_schema.columns \
             WHERE table_schema = 'public' AND table_name <> 'seaql_migrations'",
            "SELECT indexdef AS fact FROM pg_indexes \
             WHERE schemaname = 'public' AND tablename <> 'seaql_migrations'",
            "SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) AS fact \
             FROM pg_constraint WHERE connamespace = 'public'::regnamespace \
             AND conrelid <> 'seaql_migrations'::regclass",
        ],
    };
    let mut facts = BTreeSet::new();
    for question in questions {
        let statement = Statement::from_string(conn.get_database_backend(), *question);
        for row in conn.query_all_raw(statement).await.unwrap() {
            facts.insert(row.try_get::<String>("", "fact").unwrap());
        }
    }
    facts
}

async fn each_step_takes_back_what_it_made_and_makes_it_again(conn: DatabaseConnection) {
    Migrator::install(&conn).await.unwrap();
    let mut stages = vec![description(&conn).await];
    assert!(stages[0].is_empty(), "{:?}", stages[0]);
    for _ in Migrator::migrations() {
        Migrator::up(&conn, Some(1)).await.unwrap();
        stages.push(description(&conn).await);
    }
    let whole = stages.pop().unwrap();
    for before in stages.iter().rev() {
        Migrator::down(&conn, Some(1)).await.unwrap();
        assert_eq!(&description(&conn).await, before);
    }
    migrate(&conn).await;
    assert_eq!(description(&conn).await, whole);
    Migrator::down(&conn, None).await.unwrap();
    assert!(description(&conn).await.is_empty());
    migrate(&conn).await;
    assert_eq!(description(&conn).await, whole);
}

async fn constraints_and_indexes_have_their_names(conn: DatabaseConnection) {
    migrate(&conn).await;
    let all = description(&conn).await.into_iter().collect::<String>();
    let lost: Vec<_> = NAMES.iter().filter(|name| !all.contains(**name)).collect();
    assert!(lost.is_empty(), "{lost:?} are not among {all}");
}

// ---- rows -----------------------------------------------------------------------------------------------------

async fn add<M>(conn: &DatabaseConnection, row: M) -> Result<(), DbErr>
where
    M: ModelTrait + IntoActiveModel<<M::Entity as EntityTrait>::ActiveModel>,
{
    M::Entity::insert(row.into_active_model())
        .exec_without_returning(conn)
        .await
        .map(|_| ())
}

async fn assert_keeps<M>(conn: &DatabaseConnection, row: M)
where
    M: ModelTrait + IntoActiveModel<<M::Entity as EntityTrait>::ActiveModel> + PartialEq + Debug,
    M::Entity: EntityTrait<Model = M>,
{
    add(conn, row.clone()).await.unwrap();
    assert_eq!(M::Entity::find().all(conn).await.unwrap(), [row]);
}

fn assert_refused(outcome: Result<(), DbErr>) {
    let refusal = outcome.expect_err("a duplicate is refused");
    assert!(
        matches!(
            refusal.sql_err(),
            Some(SqlErr::UniqueConstraintViolation(_))
        ),
        "{refusal}"
    );
}

fn a_user(id: i64, phone: &str) -> user::Model {
    user::Model {
        id,
        phone: phone.to_owned(),
        nickname: WORDS.to_owned(),
        avatar_url: Some("https://pictures.example/1".to_owned()),
        city: Some(WORDS.to_owned()),
        intro: Some(WORDS.to_owned()),
        gender: Some(Gender::Female),
        birthday: Date::from_ymd_opt(2000, 2, 29),
        role: Role::Merchant,
        banned_at: Some(BIG),
        time_zone: Some("America/Argentina/ComodRivadavia".to_owned()),
        created_at: BIG,
        updated_at: BIG,
        version: BIG,
    }
}

fn a_type(id: i64, code: &str) -> shop_type::Model {
    shop_type::Model {
        id,
        code: code.to_owned(),
        name: WORDS.to_owned(),
        sort: i32::MAX,
        created_at: BIG,
        version: BIG,
    }
}

fn a_shop(id: i64, source: Option<&str>) -> shop::Model {
    shop::Model {
        id,
        type_id: BIG,
        owner_id: Some(BIG),
        name: WORDS.to_owned(),
        images: format!("[\"{}\"]", "x".repeat(20_000)),
        area: Some(WORDS.to_owned()),
        address: Some(WORDS.to_owned()),
        latitude: 21.028_511_123_456_78,
        longitude: -105.804_817_123_456_7,
        average_price_minor: Some(BIG),
        currency: Some("VND".to_owned()),
        sold_count: BIG,
        comment_count: BIG,
        score_tenths: 47,
        open_hours: Some("Mo-Su 07:00-22:00".to_owned()),
        source: source.map(str::to_owned),
        status: ShopStatus::Closed,
        created_at: BIG,
        updated_at: BIG,
        version: BIG,
    }
}

fn a_voucher() -> voucher::Model {
    voucher::Model {
        id: BIG,
        shop_id: BIG,
        kind: VoucherKind::Ordinary,
        title: WORDS.to_owned(),
        sub_title: Some(WORDS.to_owned()),
        rules: Some(WORDS.repeat(500)),
        price_minor: BIG,
        value_minor: BIG,
        currency: "VND".to_owned(),
        status: VoucherStatus::Retired,
        created_at: BIG,
        updated_at: BIG,
        version: BIG,
    }
}

fn a_sale(voucher_id: i64, sold: i64, stage: SaleStage) -> sale::Model {
    sale::Model {
        voucher_id,
        shop_id: BIG,
        begin_ms: BIG,
        end_ms: BIG,
        total: 10,
        sold,
        per_user_limit: 1,
        max_attempts: 3,
        price_minor: BIG,
        currency: "VND".to_owned(),
        stage,
        paused: true,
        frozen: false,
        epoch: BIG,
        announced: BIG,
        adjust_version: BIG,
        adjust_target: Some(BIG),
        lease_token: Some("t".repeat(64)),
        lease_until: BIG,
        created_at: BIG,
        updated_at: BIG,
        settled_at: Some(BIG),
        version: BIG,
    }
}

fn a_follow(id: i64, followee_id: i64) -> follow::Model {
    follow::Model {
        id,
        follower_id: 7,
        followee_id,
        seq: BIG,
        created_at: BIG,
    }
}

/// A live order of slot 1 of voucher 7 and buyer 9.
fn a_live_order(id: i64) -> order::Model {
    order::Model {
        id,
        voucher_id: 7,
        shop_id: BIG,
        user_id: 9,
        slot: 1,
        active: Some(1),
        status: OrderStatus::Unpaid,
        price_minor: BIG,
        currency: "VND".to_owned(),
        request_id: "r".repeat(64),
        reserved_at: BIG,
        epoch: BIG,
        created_at: BIG,
        pay_by: BIG,
        paid_at: Some(BIG),
        closed_at: None,
        close_reason: None,
        used_at: Some(BIG),
        version: BIG,
        quantity: i32::MAX,
        redeem_tag: Some(-BIG),
    }
}

fn a_closed_order(id: i64) -> order::Model {
    order::Model {
        active: None,
        status: OrderStatus::Closed,
        paid_at: None,
        closed_at: Some(BIG),
        close_reason: Some(CloseReason::Deadline),
        used_at: None,
        redeem_tag: None,
        ..a_live_order(id)
    }
}

fn an_offer(voucher_id: i64, total: Option<i64>, sold: i64) -> entity::offer::Model {
    entity::offer::Model {
        voucher_id,
        shop_id: BIG,
        total,
        sold,
        per_user_limit: Some(i32::MAX),
        created_at: BIG,
    }
}

fn a_review(id: i64, holds: Option<i16>) -> entity::review::Model {
    entity::review::Model {
        id,
        shop_id: BIG,
        user_id: BIG,
        order_id: BIG,
        holds,
        score: 5,
        text: WORDS.repeat(100),
        image_ids: "[1]".to_owned(),
        created_at: BIG,
        deleted_at: Some(BIG),
    }
}

fn a_claim(request: &str) -> entity::claim::Model {
    entity::claim::Model {
        user_id: 9,
        request_id: request.to_owned(),
        voucher_id: BIG,
        quantity: i32::MAX,
        order_id: BIG,
        created_at: BIG,
    }
}

fn a_reject() -> order_reject::Model {
    order_reject::Model {
        order_id: BIG,
        voucher_id: BIG,
        user_id: BIG,
        slot: 1,
        reason: RejectReason::NotPlaced,
        price_minor: BIG,
        currency: "VND".to_owned(),
        request_id: "r".repeat(64),
        reserved_at: BIG,
        created_at: BIG,
    }
}

fn a_giveback(order_id: i64, next_at: i64) -> giveback::Model {
    giveback::Model {
        order_id,
        voucher_id: BIG,
        user_id: BIG,
        slot: 1,
        kind: GivebackKind::Reject,
        status: GivebackStatus::Pending,
        round: i32::MAX,
        attempts: i32::MAX,
        next_at,
        created_at: BIG,
        done_at: Some(BIG),
    }
}

fn a_stock_entry(id: i64) -> stock_entry::Model {
    stock_entry::Model {
        id,
        voucher_id: BIG,
        order_id: Some(BIG),
        reason: StockReason::Adjust,
        sold_delta: -1,
        total_delta: -BIG,
        sold_before: BIG,
        sold_after: BIG,
        total_before: BIG,
        total_after: BIG,
        created_at: BIG,
    }
}

fn a_note(id: i64) -> blog::Model {
    blog::Model {
        id,
        author_id: BIG,
        shop_id: Some(BIG),
        title: "😀".repeat(100),
        content: "😀".repeat(5_000),
        image_ids: "[\"1\"]".to_owned(),
        like_count: BIG,
        comment_count: BIG,
        edit_count: BIG,
        request_id: Some("r".repeat(64)),
        request_hash: Some("h".repeat(64)),
        created_at: BIG,
        updated_at: BIG,
        deleted_at: Some(BIG),
        version: BIG,
    }
}

fn an_intent(order_id: i64, token: &str) -> payment_intent::Model {
    payment_intent::Model {
        order_id,
        token: token.to_owned(),
        provider: "sandbox".to_owned(),
        user_id: BIG,
        voucher_id: BIG,
        amount_minor: BIG,
        currency: "VND".to_owned(),
        payload: WORDS.repeat(500),
        status: IntentStatus::Done,
        created_at: BIG,
    }
}

fn a_payment(id: i64, transaction: &str) -> payment::Model {
    payment::Model {
        id,
        provider: "sandbox".to_owned(),
        transaction_id: transaction.to_owned(),
        order_id: BIG,
        amount_minor: BIG,
        currency: "as it was sent".to_owned(),
        outcome: PaymentOutcome::Orphan,
        received_at: id,
        decided_at: Some(BIG),
    }
}

fn a_refund(id: i64, transaction: &str) -> refund::Model {
    refund::Model {
        id,
        provider: "sandbox".to_owned(),
        transaction_id: transaction.to_owned(),
        order_id: BIG,
        amount_minor: BIG,
        currency: "as it was sent".to_owned(),
        reason: RefundReason::WrongAmount,
        status: RefundStatus::Pending,
        idempotency_key: "k".repeat(64),
        attempts: i32::MAX,
        next_at: id,
        created_at: BIG,
        done_at: Some(BIG),
    }
}

fn a_dead_letter(id: i64) -> dead_letter::Model {
    dead_letter::Model {
        id,
        source: DeadLetterSource::Outbox,
        reference: "r".repeat(255),
        reason: WORDS.to_owned(),
        payload: WORDS.repeat(500),
        created_at: BIG,
    }
}

/// The `seq`-th notification of user 9.
fn a_notification(id: i64, seq: i64, once: &str) -> notification::Model {
    notification::Model {
        id,
        user_id: 9,
        seq,
        kind: NotificationKind::WaitlistIssued,
        actor_id: Some(BIG),
        subject: "s".repeat(64),
        text: Some("🍜".repeat(200)),
        once_key: once.to_owned(),
        created_at: BIG,
    }
}

/// A message of conversation 7 from user 8 to user 9.
fn a_message(id: i64, seq: i64, request: &str) -> message::Model {
    message::Model {
        id,
        conversation_id: 7,
        seq,
        sender_id: 8,
        recipient_id: 9,
        sent: seq,
        text: "🍜".repeat(2_000),
        request_id: request.to_owned(),
        sender_feed: seq,
        recipient_feed: seq,
        created_at: BIG,
    }
}

fn a_conversation(id: i64, low_id: i64, high_id: i64) -> conversation::Model {
    conversation::Model {
        id,
        low_id,
        high_id,
        created_at: BIG,
    }
}

/// A waiter of voucher 7.
fn a_waiter(id: i64, user_id: i64, place: i64) -> waiter::Model {
    waiter::Model {
        id,
        voucher_id: 7,
        user_id,
        place,
        status: WaiterStatus::Waiting,
        round: i32::MAX,
        order_id: Some(BIG),
        created_at: BIG,
    }
}

async fn every_table_keeps_a_row_of_its_entity(conn: DatabaseConnection) {
    migrate(&conn).await;
    assert_keeps(&conn, a_user(BIG, "+8613800000000")).await;
    assert_keeps(&conn, a_type(BIG, "noodles")).await;
    assert_keeps(&conn, a_shop(BIG, Some("osm:node/1"))).await;
    assert_keeps(&conn, a_voucher()).await;
    assert_keeps(&conn, a_sale(BIG, 10, SaleStage::Settled)).await;
    assert_keeps(&conn, a_live_order(BIG)).await;
    assert_keeps(&conn, an_offer(BIG, Some(10), 10)).await;
    assert_keeps(&conn, a_claim("r")).await;
    assert_keeps(&conn, a_review(BIG, Some(1))).await;
    let rating = entity::shop_rating::Model {
        shop_id: BIG,
        score_sum: BIG,
        review_count: BIG,
    };
    assert_keeps(&conn, rating).await;
    let note = entity::sold_change::Model {
        order_id: BIG,
        units: i32::MIN,
        shop_id: BIG,
    };
    assert_keeps(&conn, note).await;
    assert_keeps(&conn, a_reject()).await;
    assert_keeps(&conn, a_giveback(BIG, BIG)).await;
    assert_keeps(&conn, a_stock_entry(BIG)).await;
    assert_keeps(&conn, an_intent(BIG, "token")).await;
    assert_keeps(&conn, a_payment(BIG, "transaction")).await;
    assert_keeps(&conn, a_refund(BIG, "transaction")).await;
    assert_keeps(&conn, a_dead_letter(BIG)).await;
    let progress = writer_progress::Model {
        partition_id: 0,
        committed_at: BIG,
    };
    assert_keeps(&conn, progress).await;
    let number = worker_id::Model {
        worker_id: 0,
        owner: "o".repeat(64),
        leased_until: BIG,
    };
    assert_keeps(&conn, number).await;
    let lease = lease::Model {
        name: "n".repeat(128),
        owner: "o".repeat(64),
        expires_at: BIG,
    };
    assert_keeps(&conn, lease).await;
    let figures = daily_statistics::Model {
        day: Date::from_ymd_opt(2028, 2, 29).unwrap(),
        dau: BIG,
        wau: BIG,
        mau: BIG,
        uv: BIG,
        orders: BIG,
        paid_orders: BIG,
        computed_at: BIG,
        version: BIG,
    };
    assert_keeps(&conn, figures).await;
    let year = sign_in::Model {
        user_id: BIG,
        year: 2028,
        signed: vec![0xff; 46],
        made_up: vec![0; 46],
        joined: vec![0x80; 46],
        time_zone: "America/Argentina/ComodRivadavia".to_owned(),
        updated_at: BIG,
        version: BIG,
    };
    assert_keeps(&conn, year).await;
    let switch = switch::Model {
        name: "s".repeat(64),
        is_on: true,
        updated_by: BIG,
        updated_at: BIG,
        version: BIG,
    };
    assert_keeps(&conn, switch).await;
    assert_keeps(&conn, a_notification(BIG, BIG, &"k".repeat(128))).await;
    let known = notification_box::Model {
        user_id: BIG,
        last_seq: BIG,
        read_seq: BIG,
    };
    assert_keeps(&conn, known).await;
    let known = chat_box::Model {
        user_id: BIG,
        last_feed: BIG,
    };
    assert_keeps(&conn, known).await;
    assert_keeps(&conn, a_waiter(BIG, BIG, BIG)).await;
    let list = waitlist::Model {
        voucher_id: BIG,
        last_place: BIG,
        is_active: true,
    };
    assert_keeps(&conn, list).await;
    let reminder = reminder::Model {
        voucher_id: BIG,
        user_id: BIG,
        told_begin_ms: BIG,
        created_at: BIG,
    };
    assert_keeps(&conn, reminder).await;
    assert_keeps(&conn, a_conversation(BIG, BIG, BIG)).await;
    let side = conversation_member::Model {
        conversation_id: BIG,
        user_id: BIG,
        last_feed: BIG,
        last_message_id: BIG,
        received: BIG,
        read_seq: BIG,
        read_received: BIG,
    };
    assert_keeps(&conn, side).await;
    assert_keeps(&conn, a_message(BIG, BIG, &"r".repeat(64))).await;
    assert_keeps(&conn, an_image()).await;
    assert_keeps(&conn, a_follow(BIG, BIG)).await;
    let outbox = entity::feed_outbox::Model {
        blog_id: BIG,
        author_id: BIG,
        created_at: BIG,
    };
    assert_keeps(&conn, outbox).await;
    let counts = follow_count::Model {
        user_id: BIG,
        followers: BIG,
        following: BIG,
        seq: BIG,
    };
    assert_keeps(&conn, counts).await;
}

fn an_image() -> image::Model {
    image::Model {
        id: BIG,
        owner_id: BIG,
        object_key: "k".repeat(64),
        state: ImageState::Deleting,
        content_type: "image/jpeg".to_owned(),
        width: i32::MAX,
        height: i32::MAX,
        bytes: i32::MAX,
        sha256: "f".repeat(64),
        created_at: BIG,
    }
}

async fn a_note_is_kept_with_all_that_belongs_to_it(conn: DatabaseConnection) {
    migrate(&conn).await;
    let note = a_note(BIG);
    assert_keeps(&conn, note.clone()).await;
    blog::Entity::delete_by_id(BIG).exec(&conn).await.unwrap();
    let bare = blog::Model {
        shop_id: None,
        request_id: None,
        request_hash: None,
        deleted_at: None,
        ..a_note(0)
    };
    assert_keeps(&conn, bare.clone()).await;
    add(&conn, blog::Model { id: 1, ..bare }).await.unwrap();
    add(&conn, note).await.unwrap();
    assert_refused(add(&conn, a_note(2)).await);

    let like = |user_id, seq| blog_like::Model {
        blog_id: BIG,
        user_id,
        seq,
        created_at: BIG,
    };
    assert_keeps(&conn, like(BIG, BIG)).await;
    assert_refused(add(&conn, like(BIG, 1)).await);
    assert_refused(add(&conn, like(1, BIG)).await);
    let remark = |id| comment::Model {
        id,
        blog_id: BIG,
        author_id: BIG,
        text: "😀".repeat(500),
        request_id: Some("r".repeat(64)),
        request_hash: Some("h".repeat(64)),
        created_at: BIG,
        deleted_at: Some(BIG),
    };
    assert_keeps(&conn, remark(BIG)).await;
    assert_refused(add(&conn, remark(1)).await);
    let fanout = blog_fanout::Model {
        blog_id: BIG,
        author_id: BIG,
        created_at: BIG,
        step: Some(WORDS.to_owned()),
        done_at: Some(BIG),
    };
    assert_keeps(&conn, fanout).await;
}

/// What may be unknown is left out; 0 is a number like others, and no wish for the next one.
async fn a_row_may_leave_out_what_is_not_known(conn: DatabaseConnection) {
    migrate(&conn).await;
    let user = user::Model {
        avatar_url: None,
        city: None,
        intro: None,
        gender: None,
        birthday: None,
        banned_at: None,
        ..a_user(0, "+8613800000000")
    };
    assert_keeps(&conn, user).await;
    let shop = shop::Model {
        owner_id: None,
        area: None,
        address: None,
        average_price_minor: None,
        currency: None,
        open_hours: None,
        ..a_shop(0, None)
    };
    assert_keeps(&conn, shop).await;
    let voucher = voucher::Model {
        id: 0,
        sub_title: None,
        rules: None,
        ..a_voucher()
    };
    assert_keeps(&conn, voucher).await;
    let sale = sale::Model {
        adjust_target: None,
        lease_token: None,
        settled_at: None,
        ..a_sale(0, 0, SaleStage::Draft)
    };
    assert_keeps(&conn, sale).await;
    assert_keeps(&conn, a_closed_order(0)).await;
    let notification = notification::Model {
        actor_id: None,
        text: None,
        ..a_notification(0, 0, "")
    };
    assert_keeps(&conn, notification).await;
    let offer = entity::offer::Model {
        per_user_limit: None,
        ..an_offer(0, None, BIG)
    };
    assert_keeps(&conn, offer).await;
    let payment = payment::Model {
        decided_at: None,
        ..a_payment(0, "transaction")
    };
    assert_keeps(&conn, payment).await;
}

async fn the_ledger_and_the_dead_letters_number_themselves(conn: DatabaseConnection) {
    migrate(&conn).await;
    for _ in 0..2 {
        let mut entry = a_stock_entry(0).into_active_model();
        entry.id = ActiveValue::NotSet;
        stock_entry::Entity::insert(entry)
            .exec_without_returning(&conn)
            .await
            .unwrap();
        let mut letter = a_dead_letter(0).into_active_model();
        letter.id = ActiveValue::NotSet;
        dead_letter::Entity::insert(letter)
            .exec_without_returning(&conn)
            .await
            .unwrap();
    }
    let entries = stock_entry::Entity::find().all(&conn).await.unwrap();
    let letters = dead_letter::Entity::find().all(&conn).await.unwrap();
    let entries: BTreeSet<_> = entries.iter().map(|entry| entry.id).collect();
    let letters: BTreeSet<_> = letters.iter().map(|letter| letter.id).collect();
    assert_eq!(entries, BTreeSet::from([1, 2]));
    assert_eq!(letters, BTreeSet::from([1, 2]));
}

// ---- what is refused ------------------------------------------------------------------------------------------

async fn a_sale_sells_no_more_than_its_total_and_no_less_than_nothing(conn: DatabaseConnection) {
    migrate(&conn).await;
    let is_check = |refusal: DbErr| refusal.to_string().contains("ck_sales_sold");
    for sold in [-1, 11] {
        let outcome = add(&conn, a_sale(1, sold, SaleStage::Opened)).await;
        assert!(is_check(outcome.unwrap_err()), "{sold} of 10");
    }
    add(&conn, a_sale(1, 0, SaleStage::Opened)).await.unwrap();
    for (column, value) in [
        (sale::Column::Sold, 11),
        (sale::Column::Sold, -1),
        (sale::Column::Total, -1),
    ] {
        let outcome = set(&conn, column, value).await;
        assert!(is_check(outcome.unwrap_err()), "{column:?} {value}");
    }
    set(&conn, sale::Column::Sold, 10).await.unwrap();
    let outcome = set(&conn, sale::Column::Total, 9).await;
    assert!(is_check(outcome.unwrap_err()), "a total below what is sold");
    let kept = sale::Entity::find().one(&conn).await.unwrap().unwrap();
    assert_eq!((kept.sold, kept.total), (10, 10));
}

async fn a_request_claims_once(conn: DatabaseConnection) {
    migrate(&conn).await;
    add(&conn, a_claim("r")).await.unwrap();
    assert_refused(add(&conn, a_claim("r")).await);
    add(&conn, a_claim("R")).await.unwrap();
}

async fn a_guest_has_one_review_and_any_number_taken_back(conn: DatabaseConnection) {
    migrate(&conn).await;
    add(&conn, a_review(1, Some(1))).await.unwrap();
    assert_refused(add(&conn, a_review(2, Some(1))).await);
    add(&conn, a_review(2, None)).await.unwrap();
    add(&conn, a_review(3, None)).await.unwrap();
}

async fn an_offer_sells_no_more_than_its_total(conn: DatabaseConnection) {
    migrate(&conn).await;
    for (total, sold) in [(Some(10), 11), (Some(10), -1), (None, -1)] {
        let refusal = add(&conn, an_offer(1, total, sold)).await.unwrap_err();
        let is_check = refusal.to_string().contains("ck_offers_sold");
        assert!(is_check, "{sold} of {total:?}: {refusal}");
    }
    add(&conn, an_offer(1, Some(10), 10)).await.unwrap();
    add(&conn, an_offer(2, None, BIG)).await.unwrap();
}

async fn set(conn: &DatabaseConnection, column: sale::Column, value: i64) -> Result<(), DbErr> {
    sale::Entity::update_many()
        .col_expr(column, sea_orm::prelude::Expr::value(value))
        .filter(sale::Column::VoucherId.eq(1))
        .exec(conn)
        .await
        .map(|_| ())
}

async fn a_slot_has_one_live_order_and_any_number_of_closed_ones(conn: DatabaseConnection) {
    migrate(&conn).await;
    add(&conn, a_closed_order(1)).await.unwrap();
    add(&conn, a_closed_order(2)).await.unwrap();
    add(&conn, a_live_order(3)).await.unwrap();
    assert_refused(add(&conn, a_live_order(4)).await);
    let others = [
        order::Model {
            slot: 2,
            ..a_live_order(5)
        },
        order::Model {
            user_id: 10,
            ..a_live_order(6)
        },
        order::Model {
            voucher_id: 8,
            ..a_live_order(7)
        },
    ];
    for other in others {
        add(&conn, other).await.unwrap();
    }
    let mut live: Vec<_> = order::Entity::find_live(7).all(&conn).await.unwrap();
    live.sort_by_key(|order| order.id);
    assert_eq!(live.iter().map(|o| o.id).collect::<Vec<_>>(), [3, 5, 6]);
}

async fn a_transaction_of_a_provider_counts_once(conn: DatabaseConnection) {
    migrate(&conn).await;
    add(&conn, a_payment(1, "t1")).await.unwrap();
    assert_refused(add(&conn, a_payment(2, "t1")).await);
    add(&conn, a_payment(3, "T1")).await.unwrap();
    let elsewhere = payment::Model {
        provider: "other".to_owned(),
        ..a_payment(4, "t1")
    };
    add(&conn, elsewhere).await.unwrap();

    add(&conn, a_refund(1, "t1")).await.unwrap();
    assert_refused(add(&conn, a_refund(2, "t1")).await);
    add(&conn, a_refund(3, "T1")).await.unwrap();
}

async fn what_is_one_of_its_kind_is_not_written_twice(conn: DatabaseConnection) {
    migrate(&conn).await;
    add(&conn, a_user(1, "+8613800000000")).await.unwrap();
    assert_refused(add(&conn, a_user(2, "+8613800000000")).await);
    assert_refused(add(&conn, a_user(1, "+8613800000001")).await);
    add(&conn, a_type(1, "noodles")).await.unwrap();
    assert_refused(add(&conn, a_type(2, "noodles")).await);
    add(&conn, a_shop(1, Some("osm:node/1"))).await.unwrap();
    assert_refused(add(&conn, a_shop(2, Some("osm:node/1"))).await);
    add(&conn, a_shop(3, None)).await.unwrap();
    add(&conn, a_shop(4, None)).await.unwrap();
    add(&conn, an_intent(1, "token")).await.unwrap();
    assert_refused(add(&conn, an_intent(2, "token")).await);
    add(&conn, a_notification(1, 1, "k")).await.unwrap();
    assert_refused(add(&conn, a_notification(2, 1, "l")).await);
    assert_refused(add(&conn, a_notification(2, 2, "k")).await);
    add(&conn, a_notification(2, 2, "K")).await.unwrap();
    add(&conn, a_waiter(1, 1, 1)).await.unwrap();
    assert_refused(add(&conn, a_waiter(2, 1, 2)).await);
    assert_refused(add(&conn, a_waiter(2, 2, 1)).await);
    add(&conn, a_conversation(1, 1, 2)).await.unwrap();
    assert_refused(add(&conn, a_conversation(2, 1, 2)).await);
    add(&conn, a_message(1, 1, "r")).await.unwrap();
    assert_refused(add(&conn, a_message(2, 1, "s")).await);
    assert_refused(add(&conn, a_message(2, 2, "r")).await);
    add(&conn, a_message(2, 2, "R")).await.unwrap();
    add(&conn, an_image()).await.unwrap();
    assert_refused(
        add(
            &conn,
            image::Model {
                id: 1,
                ..an_image()
            },
        )
        .await,
    );
    add(&conn, a_follow(1, 9)).await.unwrap();
    assert_refused(add(&conn, a_follow(2, 9)).await);
    add(&conn, a_follow(3, 10)).await.unwrap();
}

// ---- what must not be forgotten -------------------------------------------------------------------------------

async fn what_is_due_is_found_the_longest_due_first(conn: DatabaseConnection) {
    migrate(&conn).await;
    let rows = [(1, 30), (2, 10), (3, 10), (4, 31)];
    for (id, pay_by) in rows {
        let due = order::Model {
            slot: i32::try_from(id).unwrap(),
            pay_by,
            ..a_live_order(id)
        };
        add(&conn, due).await.unwrap();
    }
    let paid = order::Model {
        status: OrderStatus::Paid,
        slot: 5,
        pay_by: 1,
        ..a_live_order(5)
    };
    add(&conn, paid).await.unwrap();
    let due = order::Entity::find_unpaid_due(30).all(&conn).await.unwrap();
    assert_eq!(due.iter().map(|o| o.id).collect::<Vec<_>>(), [2, 3, 1]);

    for (id, next_at) in [(1, 30), (2, 10), (3, 31)] {
        add(&conn, a_giveback(id, next_at)).await.unwrap();
    }
    let done = giveback::Model {
        status: GivebackStatus::Done,
        ..a_giveback(4, 1)
    };
    add(&conn, done).await.unwrap();
    let due = giveback::Entity::find_pending_due(30);
    let due = due.all(&conn).await.unwrap();
    assert_eq!(due.iter().map(|g| g.order_id).collect::<Vec<_>>(), [2, 1]);
}

async fn money_without_an_end_is_found(conn: DatabaseConnection) {
    migrate(&conn).await;
    for (id, next_at) in [(1, 30), (2, 10), (3, 31)] {
        let refund = refund::Model {
            next_at,
            ..a_refund(id, &format!("t{id}"))
        };
        add(&conn, refund).await.unwrap();
    }
    let done = refund::Model {
        status: RefundStatus::Done,
        ..a_refund(4, "t4")
    };
    add(&conn, done).await.unwrap();
    let due = refund::Entity::find_pending_due(30);
    let due = due.all(&conn).await.unwrap();
    assert_eq!(due.iter().map(|r| r.id).collect::<Vec<_>>(), [2, 1]);

    for id in [3, 1] {
        let orphan = a_payment(id, &format!("t{id}"));
        add(&conn, orphan).await.unwrap();
    }
    let paid = payment::Model {
        outcome: PaymentOutcome::Paid,
        ..a_payment(2, "t2")
    };
    add(&conn, paid).await.unwrap();
    let orphans = payment::Entity::find_orphans().all(&conn).await.unwrap();
    assert_eq!(orphans.iter().map(|p| p.id).collect::<Vec<_>>(), [1, 3]);
}

async fn sales_that_are_open_are_found_until_they_are_settled(conn: DatabaseConnection) {
    migrate(&conn).await;
    let stages = [
        (4, SaleStage::Opened),
        (1, SaleStage::Draft),
        (2, SaleStage::Opened),
        (3, SaleStage::Settled),
    ];
    for (voucher, stage) in stages {
        add(&conn, a_sale(voucher, 0, stage)).await.unwrap();
    }
    let open = sale::Entity::find_open().all(&conn).await.unwrap();
    assert_eq!(
        open.iter().map(|s| s.voucher_id).collect::<Vec<_>>(),
        [2, 4]
    );
}

macro_rules! on_each_database {
    ($($claim:ident),+ $(,)?) => {
        on_each_database!(sqlite Sqlite: $($claim)+);
        on_each_database!(mariadb MySql: $($claim)+);
        on_each_database!(postgres Postgres: $($claim)+);
    };
    ($name:ident $backend:ident: $($claim:ident)+) => {
        mod $name {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $claim() {
                    super::try_on(sea_orm::DbBackend::$backend, super::$claim).await;
                }
            )+
        }
    };
}

on_each_database!(
    each_step_takes_back_what_it_made_and_makes_it_again,
    constraints_and_indexes_have_their_names,
    every_table_keeps_a_row_of_its_entity,
    a_note_is_kept_with_all_that_belongs_to_it,
    a_row_may_leave_out_what_is_not_known,
    the_ledger_and_the_dead_letters_number_themselves,
    a_sale_sells_no_more_than_its_total_and_no_less_than_nothing,
    an_offer_sells_no_more_than_its_total,
    a_request_claims_once,
    a_guest_has_one_review_and_any_number_taken_back,
    a_slot_has_one_live_order_and_any_number_of_closed_ones,
    a_transaction_of_a_provider_counts_once,
    what_is_one_of_its_kind_is_not_written_twice,
    what_is_due_is_found_the_longest_due_first,
    money_without_an_end_is_found,
    sales_that_are_open_are_found_until_they_are_settled,
);

//! Wrong configuration is refused at the start, by its key, and a secret is never shown.

use crate::support::process::{Output, run};
use crate::support::stores::Folder;

/// What `serve` says to an environment that it must refuse.
async fn refused(env: &[(&str, &str)]) -> Output {
    let folder = Folder::make("config");
    let mut all = vec![
        (
            "LIFEMATE_DATA_DIR".to_owned(),
            folder.path().display().to_string(),
        ),
        ("LIFEMATE_HTTP_ADDR".to_owned(), "127.0.0.1:0".to_owned()),
    ];
    all.extend(
        env.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    let output = run(&["serve"], &all).await;
    assert!(
        !output.status.success(),
        "{env:?} was taken: {}{}",
        output.stdout,
        output.stderr
    );
    output
}

/// Production with everything that it wants.
const PRODUCTION: [(&str, &str); 6] = [
    ("LIFEMATE_PROFILE", "production"),
    ("LIFEMATE_ID_SECRET", "8d4fb28c1cbe7c2f6a1b0e9d5c3a7f10"),
    (
        "LIFEMATE_WEBHOOK_SECRET",
        "1f7e4c2b9a8d6e5f30b1c2d4e6f8a907",
    ),
    ("LIFEMATE_CODE_SENDER", "webhook"),
    ("LIFEMATE_CODE_WEBHOOK_URL", "https://codes.invalid/send"),
    (
        "LIFEMATE_CODE_WEBHOOK_SECRET",
        "c0ffee12c0ffee34c0ffee56c0ffee78",
    ),
];

#[tokio::test]
async fn a_value_that_cannot_be_used_is_refused_by_its_key() {
    let cases = [
        ("LIFEMATE_DATABASE_URL", "not a url", "database_url"),
        (
            "LIFEMATE_DATABASE_URL",
            "oracle://db/lifemate",
            "database_url",
        ),
        (
            "LIFEMATE_DATABASE_URL",
            "mysql://user:hidden-word@db",
            "database_url",
        ),
        ("LIFEMATE_REDIS_URL", "http://127.0.0.1", "redis_url"),
        (
            "LIFEMATE_CACHE_REDIS_URL",
            "redis//127.0.0.1",
            "cache_redis_url",
        ),
        ("LIFEMATE_KAFKA_BROKERS", "127.0.0.1", "kafka_brokers"),
        ("LIFEMATE_HTTP_ADDR", "8000", "http_addr"),
        ("LIFEMATE_PUBLIC_URL", "127.0.0.1:8000", "public_url"),
        ("LIFEMATE_PAY_WINDOW_SECS", "0", "pay_window_secs"),
        ("LIFEMATE_ORPHAN_WAIT_SECS", "0", "orphan_wait_secs"),
        (
            "LIFEMATE_PAY_WINDOW_SECS",
            "soon",
            "LIFEMATE_PAY_WINDOW_SECS",
        ),
        (
            "LIFEMATE_DATABASE_MAX_CONNECTIONS",
            "1",
            "database_max_connections",
        ),
        ("LIFEMATE_PROFILE", "staging", "LIFEMATE_PROFILE"),
        ("LIFEMATE_DEPLOYMENT", "a:b", "deployment"),
        ("LIFEMATE_ID_SECRET", "short", "id_secret"),
        (
            "LIFEMATE_ALLOWED_ORIGINS",
            "https://app.invalid/path",
            "allowed_origins",
        ),
        (
            "LIFEMATE_TRUSTED_PROXIES",
            "10.0.0.0/64",
            "LIFEMATE_TRUSTED_PROXIES",
        ),
        ("LIFEMATE_ANSWER_MODE", "redis_and_kafka", "answer_mode"),
        ("LIFEMATE_S3_BUCKET", "pictures", "s3_access_key"),
        ("LIFEMATE_S3_BUCKET", "of/pictures", "s3_bucket"),
        ("LIFEMATE_S3_ENDPOINT", "s3.invalid", "s3_endpoint"),
        ("LIFEMATE_S3_SECRET_KEY", "hidden-word", "s3_secret_key"),
        (
            "LIFEMATE_S3_PUBLIC_URL",
            "https://p.invalid",
            "s3_public_url",
        ),
        ("LIFEMATE_LOG", "lifemate=loud", "log"),
    ];
    for (name, value, key) in cases {
        let output = refused(&[(name, value)]).await;
        assert!(
            output.stderr.contains(&format!("`{key}`")),
            "{name}={value}: {}",
            output.stderr
        );
        assert!(!output.stderr.contains("hidden-word"), "{}", output.stderr);
    }
}

#[tokio::test]
async fn an_unknown_key_is_refused_and_its_right_name_suggested() {
    let output = refused(&[("LIFEMATE_DATABSE_URL", "sqlite://x")]).await;
    assert!(
        output.stderr.contains("LIFEMATE_DATABSE_URL") && output.stderr.contains("`database_url`"),
        "{}",
        output.stderr
    );

    let folder = Folder::make("config");
    let file = folder.path().join("lifemate.toml");
    std::fs::write(&file, "pay_window = 900\n").unwrap();
    let output = run(&["--config", &file.display().to_string(), "config"], &[]).await;
    assert!(
        !output.status.success() && output.stderr.contains("`pay_window`"),
        "{}",
        output.stderr
    );
}

#[tokio::test]
async fn values_that_contradict_each_other_are_refused() {
    let output = refused(&[
        ("LIFEMATE_S3_BUCKET", "pictures"),
        ("LIFEMATE_S3_ACCESS_KEY", "a-key"),
        ("LIFEMATE_S3_SECRET_KEY", "hidden-word"),
        ("LIFEMATE_UPLOADS_DIR", "pictures"),
    ])
    .await;
    assert!(output.stderr.contains("`uploads_dir`"), "{}", output.stderr);
    assert!(!output.stderr.contains("hidden-word"), "{}", output.stderr);
    let output = refused(&[("LIFEMATE_UPLOADS_DIR", "/proc/pictures")]).await;
    assert!(output.stderr.contains("uploads_dir"), "{}", output.stderr);
    let output = refused(&[("LIFEMATE_CODE_SENDER", "webhook")]).await;
    assert!(
        output.stderr.contains("`code_webhook_url`"),
        "{}",
        output.stderr
    );
    let output = refused(&[(
        "LIFEMATE_WEBHOOK_SECRET_PREVIOUS",
        "an-older-key-of-some-length",
    )])
    .await;
    assert!(
        output.stderr.contains("`webhook_secret_previous`"),
        "{}",
        output.stderr
    );
}

#[tokio::test]
async fn production_refuses_what_is_for_development() {
    let with = |changes: &[(&'static str, &'static str)]| {
        let mut env: Vec<(&str, &str)> = PRODUCTION.to_vec();
        for (name, value) in changes {
            env.retain(|(known, _)| known != name);
            env.push((name, value));
        }
        env
    };
    let cases = [
        (with(&[("LIFEMATE_ID_SECRET", "")]), "id_secret"),
        (
            with(&[(
                "LIFEMATE_ID_SECRET",
                "change-me-change-me-change-me-change-me",
            )]),
            "id_secret",
        ),
        (
            with(&[(
                "LIFEMATE_WEBHOOK_SECRET",
                "lifemate-development-placeholder-webhook-secret",
            )]),
            "webhook_secret",
        ),
        (
            with(&[("LIFEMATE_ID_SECRET", "8d4fb28c1cbe7c2f")]),
            "id_secret",
        ),
        (
            with(&[("LIFEMATE_ID_SECRET", PRODUCTION[2].1)]),
            "webhook_secret",
        ),
        (with(&[("LIFEMATE_UNSAFE_REDIS", "true")]), "unsafe_redis"),
        (with(&[("LIFEMATE_CODE_SENDER", "console")]), "code_sender"),
    ];
    for (env, key) in cases {
        let output = refused(&env).await;
        assert!(
            output.stderr.contains(&format!("`{key}`")),
            "{env:?}: {}",
            output.stderr
        );
        for (name, value) in env
            .iter()
            .filter(|(name, value)| name.ends_with("SECRET") && !value.is_empty())
        {
            assert!(
                !output.stderr.contains(value),
                "{name} is shown: {}",
                output.stderr
            );
        }
    }
}

#[tokio::test]
async fn the_configuration_is_printed_with_its_secrets_masked() {
    let env = [
        (
            "LIFEMATE_DATABASE_URL",
            "mysql://lifemate:hidden-word@db:3306/lifemate",
        ),
        ("LIFEMATE_REDIS_URL", "redis://:hidden-word@redis:6379"),
        ("LIFEMATE_ID_SECRET", "hidden-word-of-some-length"),
        ("LIFEMATE_S3_BUCKET", "pictures"),
        ("LIFEMATE_S3_ACCESS_KEY", "the-name-of-a-key"),
        ("LIFEMATE_S3_SECRET_KEY", "hidden-word"),
        (
            "LIFEMATE_ALLOWED_ORIGINS",
            "https://a.invalid, https://b.invalid",
        ),
    ];
    let env: Vec<(String, String)> = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let output = run(&["config"], &env).await;
    assert!(output.status.success(), "{}", output.stderr);
    for line in [
        "database_url = \"mysql://lifemate:***@db:3306/lifemate\"",
        "redis_url = \"redis://:***@redis:6379\"",
        "id_secret = \"***\"",
        "s3_secret_key = \"***\"",
        "allowed_origins = [\"https://a.invalid\", \"https://b.invalid\"]",
        "pay_window_secs = 900",
    ] {
        assert!(
            output.stdout.lines().any(|printed| printed == line),
            "no {line} in {}",
            output.stdout
        );
    }
    assert!(!output.stdout.contains("hidden-word"), "{}", output.stdout);
}

#[tokio::test]
async fn a_store_that_is_away_is_named_without_its_password() {
    let output = refused(&[("LIFEMATE_REDIS_URL", "redis://:hidden-word@127.0.0.1:1")]).await;
    assert!(output.stderr.contains("redis_url"), "{}", output.stderr);
    let output = refused(&[(
        "LIFEMATE_DATABASE_URL",
        "mysql://root:hidden-word@127.0.0.1:1/lifemate",
    )])
    .await;
    assert!(output.stderr.contains("database_url"), "{}", output.stderr);
    assert!(
        !output.stderr.contains("hidden-word") && !output.stdout.contains("hidden-word"),
        "{}",
        output.stderr
    );
}

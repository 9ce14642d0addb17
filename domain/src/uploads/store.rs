//! Where pictures lie: a folder of this machine, or a bucket of S3 and what speaks like it. Knows keys and bytes only.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{
    Attribute, Attributes, ClientOptions, ObjectStore, ObjectStoreExt, PutOptions, PutPayload,
    RetryConfig,
};
use reqwest::Method;

use crate::settings::{S3Settings, UploadStore};

/// How long a signed address is good.
const SIGNED_FOR: Duration = Duration::from_secs(3_600);
/// How long S3 may take to let us in.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// How long one request to S3 may take; the largest picture has 5 MiB.
const REQUEST_LIMIT: Duration = Duration::from_secs(20);
/// Tries after the first one; all of them together end before an upload counts as broken off.
const RETRIES: usize = 2;
/// Pictures never change under their key.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// Why pictures cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The folder.
    #[error("cannot write to the folder of pictures {folder} (uploads_dir): {error}")]
    Folder {
        /// Where it should be.
        folder: String,
        /// What the system says.
        error: io::Error,
    },
    /// The store's client.
    #[error("cannot use the store of pictures (s3_endpoint, s3_bucket, s3_region): {0}")]
    Client(#[from] object_store::Error),
}

/// Where pictures lie. Cheap to clone.
#[derive(Clone)]
pub(super) enum Store {
    /// A folder of this machine; this server hands pictures out.
    Folder(Arc<LocalFileSystem>),
    /// A bucket; clients fetch from there.
    S3 {
        bucket: Arc<AmazonS3>,
        /// Where everybody may read the bucket, no slash at the end; `None`: addresses are signed.
        public_url: Option<String>,
    },
}

impl Store {
    /// Opens the store that is configured.
    pub(super) fn open(settings: &UploadStore) -> Result<Self, SetupError> {
        match settings {
            UploadStore::Folder(folder) => {
                check_folder(folder).map_err(|error| SetupError::Folder {
                    folder: folder.display().to_string(),
                    error,
                })?;
                Ok(Self::Folder(Arc::new(LocalFileSystem::new_with_prefix(
                    folder,
                )?)))
            }
            UploadStore::S3(settings) => Ok(Self::S3 {
                bucket: Arc::new(bucket(settings)?),
                public_url: settings.public_url.clone(),
            }),
        }
    }

    /// Stores a picture; it is on the disk, or with S3, when this returns.
    pub(super) async fn put(
        &self,
        key: &str,
        content_type: &str,
        bytes: Vec<u8>,
    ) -> Result<(), object_store::Error> {
        let (path, bytes) = (place(key), PutPayload::from(bytes));
        match self {
            Self::Folder(folder) => {
                folder.put(&path, bytes).await?;
                sync(folder, &path).await
            }
            Self::S3 { bucket, .. } => {
                let attributes = Attributes::from_iter([
                    (Attribute::ContentType, content_type.to_owned()),
                    (Attribute::CacheControl, FOR_EVER.to_owned()),
                ]);
                bucket
                    .put_opts(&path, bytes, PutOptions::from(attributes))
                    .await?;
                Ok(())
            }
        }
    }

    /// A picture's bytes; `None` when it is not there.
    pub(super) async fn get(
        &self,
        key: &str,
    ) -> Result<Option<BoxStream<'static, Result<Bytes, object_store::Error>>>, object_store::Error>
    {
        match self.objects().get(&place(key)).await {
            Ok(found) => Ok(Some(found.into_stream())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Takes a picture away; one that is not there is fine.
    pub(super) async fn delete(&self, key: &str) -> Result<(), object_store::Error> {
        match self.objects().delete(&place(key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Where clients fetch a picture now; `None`: from this server.
    pub(super) async fn url(&self, key: &str) -> Result<Option<String>, object_store::Error> {
        match self {
            Self::Folder(_) => Ok(None),
            Self::S3 { bucket, .. } => match self.public_url(key) {
                Some(url) => Ok(Some(url)),
                None => {
                    let path = place(key);
                    let signed = bucket.signed_url(Method::GET, &path, SIGNED_FOR);
                    Ok(Some(signed.await?.to_string()))
                }
            },
        }
    }

    /// Where everybody may fetch a picture at any time; `None` when there is no such place but this server.
    pub(super) fn public_url(&self, key: &str) -> Option<String> {
        match self {
            Self::S3 {
                public_url: Some(base),
                ..
            } => Some(format!("{base}/{}", place(key))),
            _ => None,
        }
    }

    fn objects(&self) -> &dyn ObjectStore {
        match self {
            Self::Folder(folder) => folder.as_ref(),
            Self::S3 { bucket, .. } => bucket.as_ref(),
        }
    }
}

/// Keys are ours, hexadecimal; two letters part them, so that no folder becomes too full to list.
fn place(key: &str) -> Path {
    Path::from_iter(["images", &key[..2], key])
}

/// Makes the folder, and writes into it once.
fn check_folder(folder: &std::path::Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let probe = folder.join(format!(".probe-{:016x}", rand::random::<u64>()));
    std::fs::write(&probe, b"")?;
    std::fs::remove_file(probe)
}

/// A row says that the picture is stored, so it must outlive a power cut as the row does.
async fn sync(folder: &LocalFileSystem, path: &Path) -> Result<(), object_store::Error> {
    let file = folder.path_to_filesystem(path)?;
    let synced = tokio::task::spawn_blocking(move || {
        std::fs::File::open(&file)?.sync_all()?;
        match file.parent() {
            Some(parent) => std::fs::File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    });
    let failed = |source| object_store::Error::Generic {
        store: "folder",
        source,
    };
    synced
        .await
        .map_err(|e| failed(e.into()))?
        .map_err(|e| failed(e.into()))
}

fn bucket(settings: &S3Settings) -> Result<AmazonS3, object_store::Error> {
    let options = ClientOptions::new()
        .with_connect_timeout(CONNECT_LIMIT)
        .with_timeout(REQUEST_LIMIT);
    let retry = RetryConfig {
        max_retries: RETRIES,
        retry_timeout: REQUEST_LIMIT,
        ..RetryConfig::default()
    };
    let mut builder = AmazonS3Builder::new()
        .with_client_options(options)
        .with_retry(retry)
        .with_bucket_name(&settings.bucket)
        .with_region(&settings.region)
        .with_access_key_id(&settings.access_key)
        .with_secret_access_key(settings.secret_key.expose());
    if let Some(endpoint) = &settings.endpoint {
        builder = builder
            .with_endpoint(endpoint)
            .with_allow_http(endpoint.starts_with("http://"));
    }
    builder.build()
}

//! Uploaded pictures: what is taken and how it is handed out, what is refused, whose they are, and where they lie.

mod bombs;
mod bucket;
mod owners;
mod refused;
mod taken;
mod unused;

use std::io::Cursor;

use entity::image as table;
use image::codecs::gif::GifEncoder;
use image::{DynamicImage, Frame, ImageFormat, Rgba, RgbaImage};
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::Value;

use crate::support::app::TestApp;
use crate::support::client::Client;

const BOUNDARY: &str = "a-boundary-of-tests";
const PNG: ImageFormat = ImageFormat::Png;
const JPEG: ImageFormat = ImageFormat::Jpeg;

/// One field of a form: its name, its file's name, its bytes.
type Part<'a> = (&'a str, &'a [u8], &'a [u8]);

/// What an upload was answered.
struct Uploaded {
    status: u16,
    retry_after: Option<String>,
    body: Value,
}

impl Uploaded {
    #[track_caller]
    fn image(&self) -> &Value {
        assert_eq!(self.status, 200, "{}", self.body);
        &self.body["image"]
    }

    fn id(&self) -> String {
        self.image()["id"].as_str().unwrap().to_owned()
    }

    fn code(&self) -> &str {
        self.body["errors"][0]["extensions"]["code"]
            .as_str()
            .unwrap_or_default()
    }

    /// The path of its address on the server that it was uploaded to.
    fn path(&self) -> String {
        let url = self.image()["url"].as_str().unwrap();
        let at = url.find("/uploads/").unwrap();
        url[at..].to_owned()
    }
}

fn form(parts: &[Part<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for (field, name, bytes) in parts {
        body.extend(
            format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\""
            )
            .bytes(),
        );
        body.extend(*name);
        body.extend(b"\"\r\nContent-Type: image/png\r\n\r\n");
        body.extend(*bytes);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{BOUNDARY}--\r\n").bytes());
    body
}

async fn post(client: &Client, headers: &[(&str, &str)], body: Vec<u8>) -> Uploaded {
    let response = client.post("/uploads", headers, body).await;
    let status = response.status().as_u16();
    let retry_after = response.headers().get("retry-after");
    let retry_after = retry_after.map(|value| value.to_str().unwrap().to_owned());
    let text = response.text().await.unwrap();
    Uploaded {
        status,
        retry_after,
        body: serde_json::from_str(&text).unwrap_or(Value::String(text)),
    }
}

async fn send(client: &Client, parts: &[Part<'_>]) -> Uploaded {
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    post(
        client,
        &[("content-type", &kind), ("x-upload", "1")],
        form(parts),
    )
    .await
}

async fn upload(client: &Client, file: &[u8]) -> Uploaded {
    send(client, &[("file", b"picture.png", file)]).await
}

/// A picture with a colour in each corner, so that turns and mirrors show.
fn picture(width: u32, height: u32) -> RgbaImage {
    RgbaImage::from_fn(width, height, |x, y| {
        let (left, top) = (x < width / 2, y < height / 2);
        match (left, top) {
            (true, true) => Rgba([255, 0, 0, 255]),
            (false, true) => Rgba([0, 255, 0, 255]),
            (true, false) => Rgba([0, 0, 255, 255]),
            (false, false) => Rgba([255, 255, 255, 255]),
        }
    })
}

fn file(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let drawn = DynamicImage::ImageRgba8(picture(width, height));
    let drawn = match format {
        ImageFormat::Jpeg => DynamicImage::ImageRgb8(drawn.into_rgb8()),
        _ => drawn,
    };
    drawn.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// A GIF of these frames.
fn moving(frames: Vec<RgbaImage>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new(&mut bytes);
    encoder
        .encode_frames(frames.into_iter().map(Frame::new))
        .unwrap();
    drop(encoder);
    bytes
}

/// A chunk of a PNG.
fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut sum = flate2::Crc::new();
    sum.update(kind);
    sum.update(data);
    let mut bytes = u32::try_from(data.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(kind);
    bytes.extend(data);
    bytes.extend(sum.sum().to_be_bytes());
    bytes
}

/// A PNG whose header says this size, eight bits a colour, with this picture data.
fn png_that_says(width: u32, height: u32, data: &[u8]) -> Vec<u8> {
    let mut header = width.to_be_bytes().to_vec();
    header.extend(height.to_be_bytes());
    header.extend([8, 2, 0, 0, 0]);
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.extend(chunk(b"IHDR", &header));
    bytes.extend(chunk(b"IDAT", data));
    bytes.extend(chunk(b"IEND", b""));
    bytes
}

/// Pictures that the database knows.
async fn known(app: &TestApp) -> u64 {
    table::Entity::find().count(app.db()).await.unwrap()
}

/// Files in the folder of pictures.
fn files(app: &TestApp) -> usize {
    fn count(folder: &std::path::Path) -> usize {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .map(|path| if path.is_dir() { count(&path) } else { 1 })
            .sum()
    }
    count(&app.stores.folder.path().join("uploads"))
}

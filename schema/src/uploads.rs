//! Uploaded pictures in the API. They come by `POST /uploads`, which is not GraphQL: `src/transport/uploads.rs`.

use async_graphql::{Context, ID, InputObject, Object, Result, SimpleObject};
use domain::uploads::{Image as ImageRow, ImageId};

use crate::context::ContextExt;
use crate::error::{api_error, fault_error};
use crate::limits::{IMAGE_WRITES, Limited};
use crate::loaders::by_id;
use crate::scalars::{global_id, parse_id};

/// The opaque id of a picture.
pub fn image_id(image: &ImageRow) -> ID {
    global_id("Image", image.id)
}

/// A picture that a user uploaded by `POST /uploads`.
pub struct Image(pub(crate) ImageRow);

/// A picture that a user uploaded by `POST /uploads`: multipart/form-data with one field `file`, the token, and a header
/// `X-Upload: 1`; JPEG, PNG, WebP or GIF (the first frame) of at most 5 MiB and 40 million pixels. The answer is
/// `{ "image": { "id", "url", "width", "height" } }`. It is drawn anew, so nothing but the picture is kept of the file.
/// One that nothing names within a day is taken away.
#[Object]
impl Image {
    /// The id: opaque, and the same for ever.
    pub async fn id(&self) -> ID {
        image_id(&self.0)
    }

    /// Where it can be fetched now, without a token: a JPEG or a PNG. Ask again for an address that is older than some
    /// minutes, it may be signed for an hour.
    async fn url(&self, ctx: &Context<'_>) -> Result<String> {
        let url = ctx.services().uploads.url(&self.0).await;
        url.map_err(api_error)
    }

    /// Pixels from left to right.
    async fn width(&self) -> i32 {
        self.0.width
    }

    /// Pixels from top to bottom.
    async fn height(&self) -> i32 {
        self.0.height
    }
}

/// Pictures in the order in which something names them; those that were deleted are left out.
pub(crate) async fn images_of(ctx: &Context<'_>, ids: &[ImageId]) -> Result<Vec<Image>> {
    let found = by_id(ctx).load_many(ids.iter().copied()).await;
    let mut found = found.map_err(|e| fault_error(&*e))?;
    let in_order = ids.iter().filter_map(|id| found.remove(id));
    Ok(in_order.map(Image).collect())
}

/// The pictures that `input.imageIds` names.
///
/// # Errors
/// BAD_INPUT when one is no id of a picture.
pub(crate) fn image_ids(ids: &[ID]) -> Result<Vec<ImageId>> {
    let number = |id| parse_id(id, "Image", "input.imageIds").map(ImageId);
    ids.iter().map(number).collect()
}

/// A picture to delete.
#[derive(InputObject)]
pub struct DeleteImageInput {
    /// The picture.
    image_id: ID,
}

/// A picture is gone.
#[derive(SimpleObject)]
pub struct DeleteImagePayload {
    /// The id that it had.
    image_id: ID,
}

/// Pictures of the viewer's.
#[derive(Default)]
pub struct UploadMutation;

#[Object]
impl UploadMutation {
    /// Deletes a picture of the viewer's for good; what names it shows one picture less, a profile no avatar. For users.
    ///
    /// `NOT_FOUND` when there is no such picture or it is somebody else's.
    #[graphql(guard = "Limited(&IMAGE_WRITES)")]
    async fn delete_image(
        &self,
        ctx: &Context<'_>,
        input: DeleteImageInput,
    ) -> Result<DeleteImagePayload> {
        let session = ctx.require_viewer()?;
        let id = ImageId(parse_id(&input.image_id, "Image", "input.imageId")?);
        let deleted = ctx.services().uploads.delete(session, id).await;
        deleted.map_err(api_error)?;
        Ok(DeleteImagePayload {
            image_id: input.image_id,
        })
    }
}

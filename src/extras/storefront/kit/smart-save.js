// Smart Save: after N visits, a heart offers to save its product, or saves it with an undo. A page's product has one
// offer at a time.

async function smartSave() {
  if (isPrivate()) return;
  for (const heart of elements) {
    const least = Number(heart.getAttribute('smart-save'));
    const item = least && !heart.isConsidered && heart.item?.();
    if (!item?.productId) continue;
    heart.isConsidered = true;
    const { productHandle, productTitle } = item;
    const visits = await api.count(productHandle);
    await refreshing;
    const isSaved = savedKey(item, true) || isPending(keyOf(item));
    if (!(visits >= least) || isSaved || !isAnswered(heart.check()) || !heart.isConnected || whyOff())
      continue;
    const yes = () => addItems([{ ...heart.item(), source: 'pdpSmartSave' }], 'smart-save', heart);
    const no = () => ask('product/visit', { productHandle });
    const undo = () => removeItems([item], heart);
    if (!heart.hasAttribute('smart-save-auto')) toast(heart, 'offer', { yes, no }, productTitle);
    else if (yes()) toast(heart, 'added', { undo });
    return;
  }
}

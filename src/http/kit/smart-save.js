// Smart Save: from so many visits on a heart offers to save its product, or saves it, with an undo. A removal resets the
// visits (see enqueue), so a no holds on every device.
const smart = new Set();

async function smartSave() {
  if (isPrivate()) return;
  for (const heart of elements) {
    const least = Number(heart.getAttribute('smart-save'));
    const item = heart.item && heart.item();
    if (!(least > 0) || !item.productId || smart.has(item.productId)) continue;
    const visits = await api.count(item.productHandle);
    await refreshing;
    // It may have been saved as another variant, too.
    const isSaved = () => savedKey(item, true) || whyOff() || smart.has(item.productId);
    if (!(visits >= least) || isSaved() || !answered.size || queued.some(({ k }) => k === keyOf(item)))
      continue;
    smart.add(item.productId);
    const no = () => removeItem(item, heart);
    const save = () => addItem(Object.assign(heart.item(), { source: 'pdpSmartSave' }), 'smart-save', heart);
    if (heart.hasAttribute('smart-save-auto')) {
      if (save()) toast(heart, text(heart, 'added'), [[text(heart, 'undo'), no]]);
    } else
      toast(heart, text(heart, 'offer', item.productTitle), [
        [text(heart, 'yes'), save],
        [
          text(heart, 'no'),
          () => ask('product/visit', { productHandle: item.productHandle }, { method: 'DELETE' }),
        ],
      ]);
  }
}

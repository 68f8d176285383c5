// Shows the document that the page names. Requests that are tried out go to this very service.

// Its styles have both schemes, and follow a class.
const dark = matchMedia('(prefers-color-scheme: dark)');
const paint = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', paint);
paint();

SwaggerUIBundle({
  dom_id: '#docs',
  url: document.getElementById('docs').dataset.document,
  deepLinking: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
  layout: 'BaseLayout',
});

// Shows the OpenAPI document that the page names in Swagger UI. "Try it out" sends requests to this service.

// Swagger UI has a dark scheme, but switches it by a class, not by the browser's preference.
const dark = matchMedia('(prefers-color-scheme: dark)');
const paint = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', paint);
paint();

/** Credentials that people may type. (A signature differs for each request.) */
const TYPED = ['bearer', 'apiKey', 'publishableKey', 'metricsToken'];

const ours = ({ React }) => ({
  wrapComponents: {
    // Swagger UI shows summaries as plain text, with their backticks.
    OperationSummary: (Original) => (props) => {
      const plain = (text) => text?.replaceAll('`', '');
      const operationProps = props.operationProps.update('summary', plain).updateIn(['op', 'summary'], plain);
      return React.createElement(Original, { ...props, operationProps });
    },
    // Hides the padlock: it is closed even if no credential is needed. The description says who may call.
    authorizeOperationBtn: () => () => null,
  },
  statePlugins: {
    auth: {
      wrapSelectors: {
        definitionsToAuthorize:
          (original) =>
          (...given) =>
            original(...given)
              .filter((definition) => TYPED.includes(definition.keySeq().first()))
              .sortBy((definition) => TYPED.indexOf(definition.keySeq().first())),
      },
    },
  },
});

SwaggerUIBundle({
  dom_id: '#docs',
  url: document.getElementById('docs').dataset.document,
  deepLinking: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [ours],
  layout: 'BaseLayout',
});

// Focuses the dialog's first field. Otherwise the last one has the focus, and the dialog is scrolled to its end.
document.addEventListener('click', ({ target }) => {
  if (target.closest('.btn.authorize'))
    requestAnimationFrame(() => document.querySelector('.dialog-ux input')?.focus());
});
document.addEventListener('keydown', ({ key }) => {
  if (key === 'Escape') document.querySelector('.dialog-ux .close-modal')?.click();
});

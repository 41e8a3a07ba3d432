// The dialog that asks for the token of a fleet that has one.

/** Ask for the token until one is entered. refused: whether the last one was not accepted. */
export function askForToken(dialog, refused) {
  const form = dialog.querySelector("form");
  const field = dialog.querySelector("input");
  const message = dialog.querySelector("[role=alert]");
  message.textContent = refused ? "This token was not accepted." : "";
  field.value = "";
  if (!dialog.open) dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    const stay = (event) => event.preventDefault(); // without a token there is nothing behind the dialog
    const submit = (event) => {
      event.preventDefault();
      const token = field.value.trim();
      if (!token || !/^[\x21-\x7e]+$/.test(token)) {
        message.textContent = "A token has letters, digits and punctuation, and no spaces.";
        return;
      }
      form.removeEventListener("submit", submit);
      dialog.removeEventListener("cancel", stay);
      dialog.close();
      resolve(token);
    };
    form.addEventListener("submit", submit);
    dialog.addEventListener("cancel", stay);
  });
}

// The question for the token, for a fleet that not everybody may see.

/** Ask until there is an answer. refused: the last one was wrong. */
export function askForToken(dialog, refused) {
  const form = dialog.querySelector("form");
  const field = dialog.querySelector("input");
  const complaint = dialog.querySelector("[role=alert]");
  complaint.textContent = refused ? "This token was not accepted." : "";
  field.value = "";
  if (!dialog.open) dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    const stay = (event) => event.preventDefault(); // without a token there is nothing to see behind it
    const answer = (event) => {
      event.preventDefault();
      const token = field.value.trim();
      if (!token || !/^[\x21-\x7e]+$/.test(token)) {
        complaint.textContent = "A token is letters, digits and signs, without spaces.";
        return;
      }
      form.removeEventListener("submit", answer);
      dialog.removeEventListener("cancel", stay);
      dialog.close();
      resolve(token);
    };
    form.addEventListener("submit", answer);
    dialog.addEventListener("cancel", stay);
  });
}

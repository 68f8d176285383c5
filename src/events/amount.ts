// Amounts of money as multiples of 10^-30, which are exact until they are rounded to cents.

const DECIMALS = 30;
const DECIMALS_OF_CENTS = 2;
const CENT = 10n ** BigInt(DECIMALS - DECIMALS_OF_CENTS);
const AMOUNT = new RegExp(`^(-?)(\\d{1,16})(?:\\.(\\d{1,${DECIMALS}}))?$`);

export function parseAmount(text: string | null): bigint | undefined {
  const [, sign, whole, fraction = ''] = AMOUNT.exec(text ?? '') ?? [];
  return whole === undefined ? undefined : BigInt(`${sign}${whole}${fraction.padEnd(DECIMALS, '0')}`);
}

/** The most that a column of ClickHouse can have: Decimal(18, 2). */
export const MAX_AMOUNT = '9999999999999999.99';

/** @param amount of 0 or more */
export function fitsColumn(amount: bigint): boolean {
  return inCents(amount).length <= MAX_AMOUNT.length;
}

export function inCents(amount: bigint): string {
  const size = amount < 0n ? -amount : amount;
  const digits = String((size + CENT / 2n) / CENT).padStart(DECIMALS_OF_CENTS + 1, '0');
  return `${amount < 0n ? '-' : ''}${digits.slice(0, -DECIMALS_OF_CENTS)}.${digits.slice(-DECIMALS_OF_CENTS)}`;
}
